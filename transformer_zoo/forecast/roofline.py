"""Bounds on the time of a step: with full overlap, and without any.

  compute      = matrix product FLOPs / (devices x peak FLOP/s)
  memory       = bytes accessed / (devices x memory bandwidth)
  interconnect = bytes that a device sends / its bandwidth in a ring
  at best      = the largest of the three, the others hidden behind it
  in turn      = their sum, nothing hidden
  utilisation  = model FLOPs / (seconds x devices x peak FLOP/s)

FLOPs and bytes are counted from the program (`cost.py`), what devices send from
the compiled one (`collectives.py`). No kernel reaches the peak, and what takes
time on the host or between slices is not in it: it is a bound, and a way to
compare meshes, and no measurement (Williams et al. 2009, Roofline).
"""

from collections.abc import Sequence
import dataclasses

from transformer_zoo.forecast.collectives import Total
from transformer_zoo.forecast.cost import Cost
from transformer_zoo.forecast.hardware import Chip

FORMULA = (
  "compute = matmul FLOPs / (devices x peak); memory = bytes accessed / "
  "(devices x bandwidth); interconnect = bytes sent per device / ring "
  "bandwidth; at best = the largest, in turn = the sum"
)
_SECONDS_PER_DAY = 86400


@dataclasses.dataclass(frozen=True)
class Estimate:
  """Rates that follow from the time of one step.

  Attributes:
    seconds: The seconds of one step.
    tokens_per_second: The tokens per second of all devices together, padding
      included.
    utilisation: The share of the devices' peak that the model's FLOPs use, 0 to
      1.
    days: The days of a training on the given number of tokens; None if no
      number was given.
  """

  seconds: float
  tokens_per_second: float
  utilisation: float
  days: float | None


@dataclasses.dataclass(frozen=True)
class Roofline:
  """Bounds of one step; see the formulas of this file.

  Attributes:
    compute: seconds.
    memory: seconds.
    interconnect: seconds.
    limit: the name of the largest of these.
    at_best: The estimate if the shorter times are hidden behind the longest.
    in_turn: The estimate if nothing overlaps.
  """

  compute: float
  memory: float
  interconnect: float
  limit: str
  at_best: Estimate
  in_turn: Estimate


def estimate(
  cost: Cost,
  model_flops: int,
  collectives: Sequence[Total],
  *,
  chip: Chip,
  devices: int,
  step_tokens: int,
  tokens: float | None = None,
) -> Roofline:
  """Bounds of a step.

  Args:
    cost: The cost of the step on all devices together.
    model_flops: The FLOPs that utilisation counts.
    collectives: The collectives of the step, on one device.
    chip: The peak rates of a device.
    devices: The number of devices.
    step_tokens: tokens of a batch, padding included.
    tokens: The number of tokens of a whole training; None if its days are not
      asked for.
  """
  peak = devices * chip.peak_flops
  parts = {
    "compute": cost.matmul_flops / peak,
    "memory": cost.bytes_accessed / (devices * chip.memory_bandwidth),
    "interconnect": sum(each.moved_bytes for each in collectives)
    / chip.ring_bandwidth,
  }

  def at(seconds: float) -> Estimate:
    rate = step_tokens / seconds
    days = None if tokens is None else tokens / rate / _SECONDS_PER_DAY
    return Estimate(seconds, rate, model_flops / (seconds * peak), days)

  return Roofline(
    **parts,
    limit=max(parts, key=parts.get),
    at_best=at(max(parts.values())),
    in_turn=at(sum(parts.values())),
  )
