"""Devices to compile for: this machine's, or an absent TPU slice's.

libtpu describes every slice of the TPUs that it compiles for, without one and
without asking Google Cloud's metadata server.
"""

from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
import importlib.util
import math
import os
import re

import jax

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import hardware


@dataclasses.dataclass(frozen=True)
class _Tpu:
  """A version: libtpu's name, axes of a slice, chips of a pod, arguments."""

  name: str
  dimensions: int
  pod: int
  arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)


# Pods: cloud.google.com/tpu/docs, "System architecture" of each version. A v4
# chip is one device (its two cores together) as on Cloud TPUs, and not two.
TPUS = {
  "v2": _Tpu("v2", 2, 256),
  "v3": _Tpu("v3", 2, 1024),
  "v4": _Tpu("v4", 3, 4096, {"chip_config_name": "megacore"}),
  "v5e": _Tpu("v5e", 2, 256),
  "v5p": _Tpu("v5p", 3, 8960),
  "v6e": _Tpu("v6e", 2, 256),
  "7x": _Tpu("tpu7x", 3, 9216),
}
_ALIASES = {"v7x": "7x", "tpu7x": "7x", "v5litepod": "v5e"}
# libtpu asks the metadata server, a TPU's lock and its hosts otherwise.
_SETTINGS = {
  "TPU_SKIP_MDS_QUERY": "1",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
  "TPU_ACCELERATOR_TYPE": "v5litepod-4",
  "TPU_WORKER_HOSTNAMES": "localhost",
}


@dataclasses.dataclass(frozen=True)
class Topology:
  """Devices of one kind.

  Attributes:
    name: The name as it was requested.
    platform: `cpu`, `gpu` or `tpu`.
    devices: The devices as JAX objects; they need not exist.
    chip: The peak rates and memory of a device; None if they are unknown.
  """

  name: str
  platform: str
  devices: Sequence[jax.Device]
  chip: hardware.Chip | None


def find(name: str, num_slices: int = 1) -> Topology:
  """The devices of a name.

  Args:
    name: `v5e:16x16`, `v4:4x4x4`: the chips of one slice; `cpu:8`: simulated
      devices; `gpu`, `gpu:4`: GPUs of this machine.
    num_slices: TPU slices of that shape.

  Raises:
    UserError: there is no such topology, or nothing here compiles for it.
  """
  if num_slices < 1:
    raise UserError(f"num_slices={num_slices}; it has to be at least 1")
  kind, _, shape = name.partition(":")
  kind = _ALIASES.get(kind, kind)
  if kind in ("cpu", "gpu"):
    return _local(name, kind, shape)
  if kind not in TPUS:
    known = [*TPUS, "cpu", "gpu"]
    raise UserError(
      f"unknown topology {name!r}{nearest(kind, known)}; allowed: "
      f"{_examples()}, cpu:8 (simulated), gpu:1 (of this machine)"
    )
  return _tpu(name, kind, shape, num_slices)


def chips_of(name: str) -> tuple[hardware.Chip, int]:
  """The chip of a TPU slice and the number of devices; without libtpu.

  Args:
    name: The name of a topology, such as `v5e:16x16`.

  Raises:
    UserError: there is no such slice.
  """
  kind, _, shape = name.partition(":")
  kind = _ALIASES.get(kind, kind)
  if kind not in TPUS:
    raise UserError(
      f"unknown TPU slice {name!r}{nearest(kind, TPUS)}; write it as "
      f"{_examples()}"
    )
  _check_shape(name, shape, TPUS[kind])
  chips = math.prod(int(size) for size in shape.split("x"))
  return hardware.named(kind), chips * hardware.DEVICES_OF_CHIP.get(kind, 1)


def _examples() -> str:
  return ", ".join(
    f"{kind}:{'x'.join('4' * tpu.dimensions)}" for kind, tpu in TPUS.items()
  )


def _tpu(name: str, kind: str, shape: str, num_slices: int) -> Topology:
  tpu = TPUS[kind]
  _check_shape(name, shape, tpu)
  if importlib.util.find_spec("libtpu") is None:
    raise UserError(
      f"compiling for {name} needs libtpu, which is not installed: "
      "pip install 'transformer_zoo[tpu]'"
    )
  for variable, value in _SETTINGS.items():
    os.environ.setdefault(variable, value)
  _leave_accelerators_alone()
  # Importing it here keeps libtpu out of everything else.
  from jax.experimental import topologies

  arguments = dict(tpu.arguments)
  if num_slices > 1:
    arguments["num_slices"] = num_slices
  try:
    described = topologies.get_topology_desc(
      platform="tpu", topology_name=f"{tpu.name}:{shape}", **arguments
    )
  except (jax.errors.JaxRuntimeError, NotImplementedError) as error:
    reason = str(error).splitlines()[0]
    raise UserError(
      f"libtpu has no topology {name!r}: {reason}; choose multiples of two, as "
      f"in {_examples()}"
    ) from error
  devices = described.devices
  chip = hardware.chip_of(devices[0].device_kind)
  return Topology(name, "tpu", devices, chip)


def _check_shape(name: str, shape: str, tpu: _Tpu) -> None:
  """libtpu divides by a size of zero, and takes shapes that do not exist."""
  sizes = [int(size) for size in re.findall(r"\d+", shape)]
  if (
    not re.fullmatch(r"\d+(x\d+)*", shape)
    or len(sizes) != tpu.dimensions
    or not 1 <= math.prod(sizes) <= tpu.pod
  ):
    axes = "x".join("abc"[: tpu.dimensions])
    raise UserError(
      f"topology {name!r} has to be {name.partition(':')[0]}:{axes} with "
      f"{tpu.dimensions} numbers of chips, together at most the {tpu.pod:,} of "
      f"a pod, as in {_examples()}"
    )


def _local(name: str, kind: str, shape: str) -> Topology:
  if shape and not re.fullmatch(r"[1-9]\d{0,3}", shape):
    raise UserError(
      f"topology {name!r} has to be {kind}:N, N devices up to 9999"
    )
  if kind == "cpu":
    _leave_accelerators_alone()
    if "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
      # Too late where devices have been made, which are counted below.
      with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", int(shape or 1))
  try:
    devices = jax.devices(kind)
  except RuntimeError as error:
    raise UserError(
      f"topology {name!r}: this machine has no {kind.upper()} that JAX finds"
    ) from error
  count = int(shape or len(devices))
  if count > len(devices):
    raise UserError(
      f"topology {name!r}: this machine has {len(devices)} such device"
      f"{'s' * (len(devices) > 1)}"
    )
  chip = hardware.chip_of(devices[0].device_kind)
  return Topology(name, kind, devices[:count], chip)


def _leave_accelerators_alone() -> None:
  """Compiling takes no device that a run holds on this machine."""
  jax.config.update("jax_platforms", "cpu")
