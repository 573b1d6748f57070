"""Peak rates and memory of accelerators, from their makers' public figures.

Peak FLOP/s are of dense bfloat16 matrix products, bandwidths in bytes per
second, all of one device as JAX counts them: a chip, but one of the two cores
of a chip on TPU v2, v3 and 7x, which have half of each.

Sources: TPU v2 and v3: Jouppi et al. 2020, A domain-specific supercomputer for
training deep neural networks (Communications of the ACM 63:7), table 3. From
TPU v4 on: cloud.google.com/tpu/docs, "System architecture" of each version,
whose interconnect is given per chip, in all of its links. NVIDIA: data sheets
of A100, H100 (SXM) and H200, without sparsity; NVLink, half of what is given
for both directions. `available_bytes` is what libtpu 0.0.52 lets a program
use: its own message when it refuses one.
"""

import dataclasses

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
  """One device.

  Attributes:
    name: `v5e`, `H100`, ...
    device_kind: The name that JAX gives the device.
    peak_flops: bfloat16 FLOP/s.
    memory_bytes: The size of its high-bandwidth memory.
    memory_bandwidth: bytes per second.
    ring_bandwidth: bytes per second that it sends in a ring along one mesh
      axis: on a TPU by two of its links, one in each direction.
    available_bytes: The part of its memory that a program can use.
  """

  name: str
  device_kind: str
  peak_flops: float
  memory_bytes: int
  memory_bandwidth: float
  ring_bandwidth: float
  available_bytes: int


def _tpu(
  name, device_kind, teraflops, memory, bandwidth, gigabits, links, available
):
  """Teraflop/s, GiB, GB/s, interconnect in Gbit/s over links, GiB."""
  return Chip(
    name=name,
    device_kind=device_kind,
    peak_flops=teraflops * 1e12,
    memory_bytes=int(memory * GIB),
    memory_bandwidth=bandwidth * 1e9,
    ring_bandwidth=2 * gigabits / links * 1e9 / 8,
    available_bytes=int(available * GIB),
  )


def _gpu(name, device_kind, teraflops, gigabytes, bandwidth, nvlink):
  """Teraflop/s, GB, GB/s, NVLink in GB/s and one direction."""
  return Chip(
    name=name,
    device_kind=device_kind,
    peak_flops=teraflops * 1e12,
    memory_bytes=int(gigabytes * 1e9),
    memory_bandwidth=bandwidth * 1e9,
    ring_bandwidth=nvlink * 1e9,
    available_bytes=int(gigabytes * 1e9),
  )


CHIPS = (
  _tpu("v2", "TPU v2", 46 / 2, 8, 700 / 2, 4 * 496 / 2, 4, 7.48),
  _tpu("v3", "TPU v3", 123 / 2, 16, 900 / 2, 4 * 656 / 2, 4, 15.48),
  _tpu("v4", "TPU v4", 275, 32, 1200, 2400, 6, 30.75),
  _tpu("v5e", "TPU v5 lite", 197, 16, 819, 1600, 4, 15.75),
  _tpu("v5p", "TPU v5", 459, 95, 2765, 4800, 6, 95.73),
  _tpu("v6e", "TPU v6 lite", 918, 32, 1640, 3200, 4, 31.24),
  _tpu("7x", "TPU7x", 2307 / 2, 192 / 2, 7380 / 2, 9600 / 2, 6, 94.74),
  _gpu("A100 40 GB", "NVIDIA A100-SXM4-40GB", 312, 40, 1555, 300),
  _gpu("A100", "NVIDIA A100-SXM4-80GB", 312, 80, 2039, 300),
  _gpu("H100", "NVIDIA H100 80GB HBM3", 989, 80, 3350, 450),
  _gpu("H200", "NVIDIA H200", 989, 141, 4800, 450),
)
# Of the others one.
DEVICES_OF_CHIP = {"v2": 2, "v3": 2, "7x": 2}
_BY_NAME = {chip.name: chip for chip in CHIPS}
_BY_KIND = {chip.device_kind: chip for chip in CHIPS}


def named(name: str) -> Chip:
  """The chip of that name, as `v5e`."""
  return _BY_NAME[name]


def chip_of(device_kind: str) -> Chip | None:
  """The chip of `jax.Device.device_kind`; None for one that is not listed."""
  return _BY_KIND.get(device_kind)
