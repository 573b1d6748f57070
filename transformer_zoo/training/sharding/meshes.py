"""Meshes: devices in an array with the axes `data`, `fsdp` and `model`.

`data` and `fsdp` share the rows of a batch, `fsdp` the parameters too, `model`
the heads, features and words of each layer. The network is busiest along
`model` and least busy along `data`, the only axis that runs across slices.
Where experts are shared out there is an axis `expert` too, along which rows of
a batch lie as along `fsdp`; where texts are, an axis `sequence`.
"""

from collections.abc import Mapping, Sequence
import math
from typing import Any

import jax
from jax.experimental import mesh_utils
import numpy as np

from transformer_zoo.errors import UserError

AXES = ("data", "fsdp", "model")
# Over these lie the rows of a batch.
BATCH_AXES = ("data", "fsdp")
# Devices that share experts out, after those of `BATCH_AXES`, where there are
# some; rows lie over them too.
EXPERT = "expert"
# Devices that share the tokens of each row out, before those of `model`.
SEQUENCE = "sequence"
# The stages of a pipeline, before the others where there are some.
STAGE = "stage"
# What the sizes of `AXES` are printed as.
LEGEND = "data x fsdp x num_partitions"


def make_mesh(
  devices: Sequence[jax.Device],
  *,
  fsdp: int,
  num_partitions: int,
  num_slices: int,
  num_stages: int = 1,
  expert: int = 1,
  sequence: int = 1,
) -> jax.sharding.Mesh:
  """Lays devices out.

  Args:
    devices: all of them are used.
    fsdp: devices along `fsdp`; -1 for all that the other axes leave in a slice.
    num_partitions: devices along `model`; -1 as for `fsdp`.
    num_slices: slices (TPU), or groups of hosts, inside of which the network is
      fast; -1 for the number that the devices report, or one.
    num_stages: devices along the axis `stage`, which the mesh has if they are
      more than one; stages lie on slices of their own if there are several.
    expert: devices along the axis `expert`, which the mesh has likewise.
    sequence: devices along the axis `sequence`, likewise.

  Raises:
    UserError: the devices do not divide as asked; with the meshes that do.
  """
  slices = _slices(devices, num_slices)
  if num_stages > 1:
    return _with_stages(slices, fsdp, num_partitions, num_stages, expert)
  more = {EXPERT: expert, SEQUENCE: sequence}
  left = len(devices) // len(slices)
  for name, size in more.items():
    if left % size:
      raise UserError(
        f"Partitioning.{name} is {size}, which does not divide "
        f"{_devices(left)} of a slice; choose one of "
        f"{', '.join(map(str, _divisors(left)))}"
      )
    left //= size
  data, fsdp, model = _sizes(
    left * len(slices), len(slices), fsdp, num_partitions
  )
  sizes = {"data": data // len(slices), "fsdp": fsdp}
  sizes |= {name: size for name, size in more.items() if size > 1}
  sizes["model"] = model
  shape, axes = tuple(sizes.values()), tuple(sizes)
  laid_out = [
    mesh_utils.create_device_mesh(
      shape,
      devices=devices_of_slice,
      allow_split_physical_axes=True,
    )
    for devices_of_slice in slices
  ]
  # Auto: with Explicit axes (the default) logical constraints fail.
  return jax.sharding.Mesh(
    np.concatenate(laid_out),
    axes,
    axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
  )


def _with_stages(
  slices, fsdp, num_partitions, num_stages, expert
) -> jax.sharding.Mesh:
  """A mesh of each stage, one behind the other."""
  devices = [device for each in slices for device in each]
  if len(slices) > 1 and len(slices) % num_stages:
    raise UserError(
      f"num_stages={num_stages} does not divide {len(slices)} slices, and no "
      "stage lies across two of them in part; choose a divisor"
    )
  if len(devices) % num_stages:
    raise UserError(
      f"num_stages={num_stages} does not divide {_devices(len(devices))}; "
      f"choose one of {', '.join(map(str, _divisors(len(devices))))}"
    )
  size = len(devices) // num_stages
  stages = [
    make_mesh(
      devices[start : start + size],
      fsdp=fsdp,
      num_partitions=num_partitions,
      num_slices=max(1, len(slices) // num_stages),
      expert=expert,
    )
    for start in range(0, len(devices), size)
  ]
  return jax.sharding.Mesh(
    np.stack([stage.devices for stage in stages]),
    (STAGE, *stages[0].axis_names),
    axis_types=(jax.sharding.AxisType.Auto,) * (1 + stages[0].devices.ndim),
  )


def batch_axes(mesh: jax.sharding.Mesh) -> tuple[str, ...]:
  """The axes of a mesh over which the rows of a batch lie."""
  own = (EXPERT,) if EXPERT in mesh.axis_names else ()
  return (*BATCH_AXES, *own)


def possible_sizes(count: int, num_slices: int = 1) -> list[Mapping[str, int]]:
  """The sizes of the axes of every mesh of so many devices."""
  per_slice = count // num_slices
  divisors = _divisors(per_slice)
  return [
    dict(zip(AXES, (count // (fsdp * model), fsdp, model), strict=True))
    for model in divisors
    for fsdp in divisors
    if per_slice % (fsdp * model) == 0
  ]


def number_of_slices(mesh: jax.sharding.Mesh, asked: int) -> int:
  """The number of slices across which a mesh made with `num_slices` runs."""
  return len(_slices(list(mesh.devices.flat), asked))


def described(meshes: Sequence[Mapping[str, int]]) -> str:
  """Their sizes in one line, as `LEGEND` says."""
  return ", ".join(
    "x".join(str(sizes[axis]) for axis in AXES) for sizes in meshes
  )


def slice_of(device: jax.Device) -> int | None:
  """The number of a device's slice; None if devices report no slices."""
  if device.platform != "tpu":
    return None
  return getattr(device, "slice_index", None)


def shares_of_batch(mesh: jax.sharding.Mesh) -> dict[str, Any]:
  """The equal parts of a batch that the devices of this process compute on.

  Processes along `model` have the same ones, and how a mesh orders the devices
  need not be the order of their processes.

  Returns:
    `shares`, ascending, and `num_shares`, as `loader.open_batches` takes them.
  """
  sharding = over_rows(mesh)
  count = math.prod(mesh.shape[axis] for axis in batch_axes(mesh))
  parts = sharding.addressable_devices_indices_map((count,)).values()
  return {
    "shares": tuple(sorted({part[0].indices(count)[0] for part in parts})),
    "num_shares": count,
  }


def _sizes(
  count: int, num_slices: int, fsdp: int, num_partitions: int
) -> tuple[int, int, int]:
  """The sizes of the axes, in their order."""
  per_slice = count // num_slices
  asked = [fsdp, num_partitions]
  given = [size for size in asked if size != -1]
  fixed = math.prod(given)
  if not given or min(given) < 1 or per_slice % fixed:
    where = f" in each of {num_slices} slices" if num_slices > 1 else ""
    fits = described(possible_sizes(count, num_slices))
    raise UserError(
      f"fsdp={fsdp} and num_partitions={num_partitions} do not divide "
      f"{_devices(per_slice)}{where}; meshes that do, as {LEGEND}: {fits}"
    )
  fsdp, model = (per_slice // fixed if s == -1 else s for s in asked)
  return count // (fsdp * model), fsdp, model


def _slices(
  devices: Sequence[jax.Device], num_slices: int
) -> list[list[jax.Device]]:
  """Devices by slice.

  Devices that report no slices are cut in their order, which is the order of
  their processes.
  """
  told = sorted({slice_of(device) for device in devices} - {None})
  fits = [len(told)] if len(told) > 1 else _divisors(len(devices))
  if num_slices == -1:
    num_slices = max(1, len(told))
  if num_slices not in fits:
    raise UserError(
      f"num_slices={num_slices} does not fit {_devices(len(devices))}"
      + f" in {len(told)} slices" * (len(told) > 1)
      + f"; choose {'one of ' * (len(fits) > 1)}{', '.join(map(str, fits))}"
    )
  if len(told) > 1:
    return [[d for d in devices if slice_of(d) == one] for one in told]
  size = len(devices) // num_slices
  return [list(devices[i : i + size]) for i in range(0, len(devices), size)]


def _divisors(count: int) -> list[int]:
  return [d for d in range(1, count + 1) if count % d == 0]


def _devices(count: int) -> str:
  return f"{count} device" + "s" * (count > 1)


def over_rows(mesh: jax.sharding.Mesh) -> jax.sharding.NamedSharding:
  """Returns the sharding of a batch: its rows over `batch_axes`."""
  spec = jax.sharding.PartitionSpec(batch_axes(mesh))
  return jax.sharding.NamedSharding(mesh, spec)
