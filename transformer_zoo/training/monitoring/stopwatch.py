"""Measurements that vary between machines: seconds, tokens per second."""

from collections.abc import Callable, Iterator
import contextlib
import resource
import sys
import time

import jax

# Besides these, the time since the last line went into steps.
_NOT_STEPS = ("compilation", "evaluation")


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
      peak_flops: The peak FLOP/s of one device; None if it is unknown.
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
      tokens: The number of tokens of its batch, without padding.
      flops: The FLOPs that its model needs, padding included.
    """
    self._steps += 1
    self._tokens += tokens
    self._flops += flops

  def lap(self) -> dict[str, float]:
    """Returns the measurements since the last lap and begins the next one."""
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
