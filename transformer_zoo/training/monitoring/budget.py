"""Costs of a run: tokens, FLOPs and seconds so far, and its present speed."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import resource
import sys
import time
from typing import Any

import jax

_COUNTS = ("rows", "input_tokens", "target_tokens", "flops")
PARTS = ("start", "compilation", "training", "evaluation", "saving")
# Besides these, the time since the last line went into steps.
_NOT_STEPS = ("compilation", "evaluation")


class Budget:
  """Adds up a run over all of its processes, as its checkpoints know them.

  Attributes:
    parameters: The number of parameters of the model.
    trained_parameters: The number of parameters that steps change.
    rows: The number of rows of all batches.
    input_tokens: The number of tokens that encoders read, or that precede a
      decoder's targets, without padding.
    target_tokens: The number of tokens that have a loss.
    flops: The FLOPs that the model needs for these batches, padding included:
      three times the matrix products of forward passes.
  """

  def __init__(
    self,
    saved: Mapping[str, Any] | None = None,
    *,
    parameters: int = 0,
    trained_parameters: int = 0,
    started: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
  ):
    """Begins, or continues from a checkpoint.

    Args:
      saved: The result of `to_json` that a checkpoint holds; None at the start
        of a run.
      parameters: The number of parameters of the model.
      trained_parameters: The number of parameters that steps change.
      started: The reading of `clock` when this process began with the run; None
        for now.
      clock: seconds since any moment.
    """
    saved = saved or {}
    self.parameters = parameters
    self.trained_parameters = trained_parameters
    for name in _COUNTS:
      setattr(self, name, saved.get(name, 0.0))
    self._before = saved.get("seconds", {})
    self._clock = clock
    self._opened = clock()
    start = 0.0 if started is None else self._opened - started
    self._spent = {"start": start}

  @property
  def tokens(self) -> float:
    """The number of input and target tokens, without padding."""
    return self.input_tokens + self.target_tokens

  @contextlib.contextmanager
  def spent(self, part: str) -> Iterator[None]:
    """Adds the seconds inside to a part's; the rest is training."""
    before = self._clock()
    try:
      yield
    finally:
      now = self._clock()
      self._spent[part] = self._spent.get(part, 0.0) + now - before

  def add(self, *, rows: int, tokens: float, targets: float, flops: float):
    """Counts a step.

    Args:
      rows: The number of rows of its batch.
      tokens: The number of input and target tokens together.
      targets: The number of target tokens that have a loss.
      flops: The FLOPs that the model needs, padding included.
    """
    self.rows += rows
    self.input_tokens += tokens - targets
    self.target_tokens += targets
    self.flops += flops

  def seconds(self) -> dict[str, float]:
    """Seconds by part, in the order of `PARTS`."""
    since = self._clock() - self._opened
    others = sum(self._spent.values()) - self._spent["start"]
    mine = {**self._spent, "training": since - others}
    return {
      part: self._before.get(part, 0.0) + mine.get(part, 0.0) for part in PARTS
    }

  def to_json(self) -> dict[str, Any]:
    """The state for a resumed run and for `result.json`."""
    counts = {name: getattr(self, name) for name in _COUNTS}
    return {**counts, "seconds": self.seconds()}


class Stopwatch:
  """Measures steps between two lines of metrics."""

  def __init__(
    self,
    *,
    devices: int = 1,
    peak_flops: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
  ):
    """Starts.

    Args:
      devices: over which a step is spread.
      peak_flops: The peak rate of one device in FLOPs per second; None if it is
        unknown.
      clock: seconds since any moment.
    """
    self._devices = devices
    self._peak_flops = peak_flops
    self._clock = clock
    self._restart()

  @contextlib.contextmanager
  def spent(self, name: str) -> Iterator[None]:
    """Adds the seconds inside to those spent on `name`."""
    before = self._clock()
    try:
      yield
    finally:
      seconds = self._clock() - before
      self._spent[name] = self._spent.get(name, 0.0) + seconds

  def add(self, tokens: float, flops: float) -> None:
    """Counts a step.

    Args:
      tokens: The number of tokens of the batch, padding left out.
      flops: that its model needs, padding included.
    """
    self._steps += 1
    self._tokens += tokens
    self._flops += flops

  def lap(self) -> dict[str, float]:
    """Returns the measurements since the last lap, and begins the next."""
    now = self._clock()
    apart = sum(self._spent.get(name, 0.0) for name in _NOT_STEPS)
    seconds = max(now - self._started - apart, 1e-9)
    values = {}
    if self._steps:
      per_second = self._tokens / seconds
      values |= {
        "timing/seconds_per_step": seconds / self._steps,
        "timing/tokens_per_second": per_second,
        "timing/tokens_per_second_per_device": per_second / self._devices,
      }
    if self._flops:
      per_second = self._flops / seconds
      values["timing/flops_per_second"] = per_second
      if self._peak_flops:
        peak = self._peak_flops * self._devices
        values["timing/utilization"] = per_second / peak
    for name, spent in self._spent.items():
      values[f"timing/{name}_seconds"] = spent
    self._restart()
    return values

  def _restart(self) -> None:
    self._started = self._clock()
    self._spent = {}
    self._steps, self._tokens, self._flops = 0, 0.0, 0.0


def memory() -> dict[str, float]:
  """Bytes of the fullest device of this process, else of the process itself."""
  stats = [device.memory_stats() for device in jax.local_devices()]
  if all(stats):
    return {
      "timing/device_bytes": max(s["bytes_in_use"] for s in stats),
      "timing/device_peak_bytes": max(s["peak_bytes_in_use"] for s in stats),
    }
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  # Linux counts kibibytes, macOS bytes.
  return {
    "timing/host_peak_bytes": peak * (1 if sys.platform == "darwin" else 1024)
  }
