"""Which checkpoints of a run are kept, and which of them is the best."""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import math
import os

import gin

from transformer_zoo.effects import Result
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

MEAN = "validation/average"
# Metrics of which less is better, whatever the task.
_LOWEST = frozenset({"loss", "invalid"})


@gin.register
@dataclasses.dataclass(frozen=True)
class Checkpointing:
  """What is kept of a run's checkpoints, and what a save may come to.

  A checkpoint stays as long as one of the rules keeps it. Rules see steps and
  scores only: no clock and no time of a file decides.

  Attributes:
    newest: so many of the newest.
    every: those of steps that are multiples of it, for ever; 0 for none.
    best: so many of the best; 0 for none.
    metric: what the best is chosen by, as metrics.jsonl names it:
      'validation/<task>/<metric>', or the mean of the task scores.
    highest: whether the highest value is the best, and not the lowest; None for
      the lowest of `loss` and `invalid`, the highest of all else.
    grace_seconds: that a notice of preemption (SIGTERM) leaves; a save that
      takes longer is told.
    folder: of the checkpoints; `checkpoints` in the run folder by default.
    stop_at_failed_save: ends the run where a save fails; else it goes on to
      the next one. The last state of a run must be saved in any case.
  """

  newest: int = 2
  every: int = 0
  best: int = 1
  metric: str = MEAN
  highest: bool | None = None
  grace_seconds: float = 30.0
  folder: Result[str | None] = None
  stop_at_failed_save: bool = False

  def __post_init__(self):
    if self.folder == "":
      raise UserError("Checkpointing.folder is '', which names no folder")
    if self.newest < 1 or self.every < 0 or self.best < 0:
      raise UserError(
        f"Checkpointing.newest={self.newest} must be at least 1, "
        f"every={self.every} and best={self.best} at least 0"
      )
    if self.grace_seconds <= 0:
      raise UserError(
        f"Checkpointing.grace_seconds={self.grace_seconds} must be positive"
      )

  @property
  def selection(self) -> str:
    """How the best is chosen, in words."""
    end = "highest" if self._is_highest else "lowest"
    if self.metric == MEAN:
      return f"{end} mean of the task scores on the validation split"
    return f"{end} {self.metric}"

  @property
  def _is_highest(self) -> bool:
    if self.highest is None:
      return self.metric.rpartition("/")[2] not in _LOWEST
    return self.highest

  def folder_of(self, run: os.PathLike[str]) -> str:
    """Where the checkpoints of a run lie."""
    return self.folder or os.path.join(run, "checkpoints")

  def check_metric(
    self, tasks: Iterable[str], metrics_of: Callable[[str], Iterable[str]]
  ) -> None:
    """Refuses a metric of a task that is not evaluated, or that it has not.

    Args:
      tasks: names of those that are.
      metrics_of: gives the names of a task's metrics; none where they are not
        known yet.

    Raises:
      UserError: the metric cannot be recorded.
    """
    tasks = list(tasks)
    kind, _, rest = self.metric.partition("/")
    task, _, metric = rest.rpartition("/")
    if self.metric == MEAN:
      return
    if kind == "validation" and metric and task in tasks:
      names = [f"validation/{task}/{name}" for name in metrics_of(task)]
      if names:
        self.score(dict.fromkeys(names, math.nan))
      return
    raise UserError(
      f"Checkpointing.metric={self.metric!r} is not evaluated; it is "
      f"{MEAN!r} or 'validation/<task>/<metric>' of one of: "
      f"{', '.join(tasks) or 'no task'}"
    )

  def score(self, values: Mapping[str, float]) -> float | None:
    """The value that an evaluation is judged by, None where it has none.

    Args:
      values: what it recorded, by name.

    Raises:
      UserError: the task is evaluated, but has no such metric.
    """
    if self.metric in values:
      value = float(values[self.metric])
      return None if math.isnan(value) else value
    if self.metric != MEAN:
      raise UserError(
        f"Checkpointing.metric={self.metric!r} is not among what is evaluated"
        f"{nearest(self.metric, values)}"
      )
    return None

  def ranked(self, scores: Mapping[int, float]) -> list[int]:
    """Steps, the best first; of equal ones the earlier."""
    sign = -1 if self._is_highest else 1
    return sorted(scores, key=lambda step: (sign * scores[step], step))

  def kept(self, steps: Iterable[int], scores: Mapping[int, float]) -> set[int]:
    """Which of the steps stay.

    Args:
      steps: those with a checkpoint.
      scores: of some of them, and perhaps of others.
    """
    steps = sorted(steps)
    there = {step: scores[step] for step in steps if step in scores}
    return {
      *steps[-self.newest :],
      *(step for step in steps if self.every and step % self.every == 0),
      *self.ranked(there)[: self.best],
    }


KEEP_NEWEST_AND_BEST = Checkpointing()


class Scores:
  """What the evaluations of a run were judged by."""

  def __init__(
    self,
    options: Checkpointing,
    lines: Iterable[Mapping[str, float]] = (),
  ):
    """Recalls the evaluations of a run.

    Args:
      options: what they are judged by.
      lines: of its metrics.jsonl.
    """
    self._options = options
    self.by_step: dict[int, float] = {}
    self.evaluated: set[int] = set()
    for line in lines:
      if any(name.startswith("validation/") for name in line):
        self.add(line["step"], line)

  def add(self, step: int, values: Mapping[str, float]) -> None:
    """Takes what the evaluation of a step recorded."""
    self.evaluated.add(step)
    score = self._options.score(values)
    if score is not None:
      # Another thread may read the one before.
      self.by_step = {**self.by_step, step: score}

  @property
  def best_step(self) -> int | None:
    """The step with the best score; None without scores."""
    return next(iter(self._options.ranked(self.by_step)), None)

  @property
  def best_score(self) -> float | None:
    """Its score."""
    return self.by_step.get(self.best_step)
