"""The time that a run still takes, extrapolated from what its parts took."""

import collections
from collections.abc import Callable, Iterator
import contextlib
import functools
import time

import jax


def compiling() -> float:
  """Returns the seconds that this process has traced and compiled for."""
  return sum(_compiling().values())


@functools.cache
def _compiling() -> collections.Counter[str]:
  """Seconds by event, which JAX adds to from the first call on."""
  seconds = collections.Counter()

  def add(event: str, duration: float, **_):
    if event.startswith("/jax/core/compile/"):
      seconds[event] += duration

  jax.monitoring.register_event_duration_secs_listener(add)
  return seconds


class TimeLeft:
  """Extrapolates the seconds that are left.

  Steps have a common rate by their work. Evaluations are timed apart, and the
  next one is expected to take as long as the last one. Compilation is counted
  for neither, because it does not come again.
  """

  def __init__(
    self,
    last_step: int,
    *,
    evaluations: int = 0,
    work: Callable[[int], float] = float,
    writing: Callable[[], float] = lambda: 0.0,
    clock: Callable[[], float] = time.monotonic,
    compiling: Callable[[], float] = compiling,
  ):
    """Begins.

    Args:
      last_step: The step at which the run ends.
      evaluations: The number of evaluations from now to the end.
      work: A function from a number of steps to their work in any unit, such as
        tokens: steps of longer rows take longer.
      writing: A function that returns the seconds that a checkpoint took from
        the save until it was complete, 0 if that is unknown. The last one is
        written beside the last evaluation.
      clock: A function that returns seconds since any moment.
      compiling: A function that returns the seconds of compilation so far.
    """
    self._last_work = work(last_step)
    self._evaluations = evaluations
    self._work = work
    self._writing = writing
    self._clock = clock
    self._compiling = compiling
    self._evaluating = 0.0  # Seconds of all evaluations.
    self._last_evaluation = None  # Seconds.
    self._updates = 0
    self._origin = None  # Seconds and work at the second update.
    self._left = None  # Seconds of steps left at the last update.

  @property
  def untimed_evaluations(self) -> int:
    """The number of evaluations that no time is known of, as none is over."""
    return self._evaluations if self._last_evaluation is None else 0

  def update(self, step: int) -> None:
    """Notes that `step` is done."""
    self._updates += 1
    now = self._clock() - self._compiling() - self._evaluating
    work = self._work(step)
    if self._updates <= 2:
      # What comes before the second update holds what is done once, such as
      # the first count of the FLOPs of a step.
      self._origin = now, work
    seconds, origin = self._origin
    if work > origin:
      rate = (now - seconds) / (work - origin)
      self._left = max(rate * (self._last_work - work), 0.0)
    elif work >= self._last_work:
      self._left = 0.0

  @contextlib.contextmanager
  def evaluation(self) -> Iterator[None]:
    """Goes around an evaluation."""
    before = self._clock() - self._compiling()
    try:
      yield
    finally:
      self._last_evaluation = self._clock() - self._compiling() - before
      self._evaluating += self._last_evaluation
      self._evaluations = max(self._evaluations - 1, 0)

  def seconds(self) -> float | None:
    """Returns the seconds from the last update on, None if they are unknown.

    They are without `untimed_evaluations`.
    """
    if self._left is None or self.untimed_evaluations:
      return self._left
    evaluation = self._last_evaluation if self._evaluations else 0.0
    writing = max(self._writing() - evaluation, 0.0)
    return self._left + self._evaluations * evaluation + writing
