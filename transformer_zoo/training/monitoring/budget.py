"""The budget of a run so far: tokens, FLOPs, and seconds by activity."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import time
from typing import Any

_COUNTS = ("rows", "input_tokens", "target_tokens", "flops")
PARTS = ("start", "compilation", "training", "evaluation", "saving")


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
    """Adds the seconds inside to those of a part; the rest is training."""
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
      flops: The FLOPs that its model needs.
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
