"""Reports of a layout: the mesh, the place of each parameter, device memory."""

from collections.abc import Iterator
import dataclasses
import math

import jax
import numpy as np

from transformer_zoo.forecast import compilation
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import meshes

# A replicated parameter of more bytes is pointed out.
LARGE = 10**6
# Of more devices, processes or parameters the first and the number are shown.
SHOWN = 8


def layout(program: TrainProgram) -> Iterator[str]:
  """Lines about the mesh, and what lies where before a step."""
  mesh = program.mesh
  num_slices = meshes.number_of_slices(mesh, program.partitioning.num_slices)
  yield from _mesh(mesh, num_slices)
  state = program.abstract_state
  yield (
    f"on each device: parameters {_share(state.params)}, optimizer state "
    f"{_share(state.opt_state)}"
  )
  all_of_them, trained = program.parameter_counts.values()
  if trained < all_of_them:
    yield f"trained: {trained:,} of {all_of_them:,} parameters"
  yield from _whole(program)


def planned(compiled: jax.stages.Compiled) -> str:
  """A line about the memory that the compiler plans for a step."""
  memory = compilation.memory_of(compiled)
  return (
    f"on each device in a step: temporaries {_megabytes(memory.temporaries)}, "
    f"state and batch {_megabytes(memory.arguments)}, together "
    f"{_megabytes(memory.total)}"
  )


def _mesh(mesh: jax.sharding.Mesh, num_slices: int) -> Iterator[str]:
  """Lines on the devices along each axis and the place of each process."""
  processes = np.vectorize(lambda device: device.process_index)(mesh.devices)
  ids = np.vectorize(lambda device: device.id)(mesh.devices)
  places = np.indices(mesh.devices.shape)
  slices = places[0] * num_slices // mesh.devices.shape[0]
  sizes = " x ".join(f"{size} {axis}" for axis, size in mesh.shape.items())
  yield (
    f"mesh {sizes}: {mesh.size} x {mesh.devices.flat[0].device_kind}, "
    f"processes: {len(np.unique(processes))}, slices: {num_slices}"
  )
  for number, (axis, size) in enumerate(mesh.shape.items()):
    if size == 1:
      continue
    across = [
      name
      for name, array in (("slices", slices), ("processes", processes))
      if np.ptp(array, axis=number).any()
    ]
    line = np.moveaxis(ids, number, 0).reshape(size, -1)[:, 0]
    yield (
      f"  {axis}: devices {_listed(line)}, "
      + (f"across {' and '.join(across)}" if across else "inside a process")
    )
  for process in np.unique(processes)[:SHOWN]:
    own = processes == process
    at = ", ".join(
      f"{axis} {_range(places[number][own])}"
      for number, axis in enumerate(mesh.axis_names)
    )
    yield f"  process {process}: {at}, slice {_range(slices[own])}"
  yield from _rest(len(np.unique(processes)), "processes")


def _whole(program: TrainProgram) -> Iterator[str]:
  """The large parameters that nothing shares out."""
  shape = program.mesh.shape
  if all(size == 1 for axis, size in shape.items() if axis != "data"):
    if program.mesh.size > 1:
      yield "every device has all parameters: all axes but data are of size 1"
    return
  found = [row for row in rows(program) if row.replicated]
  if not found:
    yield "no parameter above 1 MB is whole on every device"
  for row in sorted(found, key=lambda row: -row.device_bytes)[:SHOWN]:
    yield (
      f"whole on every device: {row.path} {list(row.shape)}, "
      f"{_megabytes(row.device_bytes)}"
    )
  yield from _rest(len(found), "parameters")


def _rest(number: int, what: str) -> Iterator[str]:
  if number > SHOWN:
    yield f"  and {number - SHOWN:,} {what} more"


def _share(tree) -> str:
  """The bytes of arrays on one device and in total."""
  whole = sum(
    math.prod(leaf.shape) * leaf.dtype.itemsize
    for leaf in jax.tree.leaves(tree)
  )
  return f"{_megabytes(compilation.tree_bytes(tree))} of {_megabytes(whole)}"


def _megabytes(size: int) -> str:
  return f"{size / 1e6:,.1f} MB"


def _listed(numbers: np.ndarray) -> str:
  if len(numbers) <= SHOWN:
    return " ".join(map(str, numbers))
  return f"{' '.join(map(str, numbers[: SHOWN - 1]))} ... {numbers[-1]}"


def _range(numbers: np.ndarray) -> str:
  low, high = numbers.min(), numbers.max()
  return str(low) if low == high else f"{low}-{high}"


@dataclasses.dataclass(frozen=True)
class Row:
  """One parameter.

  Attributes:
    path: The name of the array.
    shape: The shape of the whole array.
    axes: logical axes.
    mesh_axes: The mesh axes that split each axis; `-` for none.
    device_bytes: The bytes on one device.
    replicated: whether every device has all of it, and it is large.
  """

  path: str
  shape: tuple[int, ...]
  axes: tuple[str | None, ...]
  mesh_axes: tuple[str, ...]
  device_bytes: int
  replicated: bool


def rows(program: TrainProgram) -> list[Row]:
  """One row per parameter of a program."""
  params = program.abstract_state.params
  logical = [leaf.names for leaf in _boxes(program.boxed_params)]
  return [
    _row(path, leaf, names)
    for (path, leaf), names in zip(
      jax.tree_util.tree_leaves_with_path(params), logical, strict=True
    )
  ]


def _row(path, leaf, names) -> Row:
  spec = (*leaf.sharding.spec, *(None,) * leaf.ndim)[: leaf.ndim]
  size = compilation.tree_bytes(leaf)
  return Row(
    path=jax.tree_util.keystr(path, simple=True, separator="/"),
    shape=leaf.shape,
    axes=tuple(names),
    mesh_axes=tuple(map(_written, spec)),
    device_bytes=size,
    replicated=(
      leaf.sharding.is_fully_replicated
      and leaf.sharding.num_devices > 1
      and size > LARGE
    ),
  )


def _boxes(boxed) -> list:
  return jax.tree.leaves(boxed, is_leaf=lambda leaf: hasattr(leaf, "names"))


def _written(mesh_axes) -> str:
  if isinstance(mesh_axes, tuple):
    return "+".join(mesh_axes) or "-"
  return mesh_axes or "-"
