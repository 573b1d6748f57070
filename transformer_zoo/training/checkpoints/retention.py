"""Retention of a run's checkpoints, and the choice of the best by its scores.

The rules are preservation policies of Orbax; the ranking by scores is ours.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import datetime
import itertools
import math
import os

import gin
import orbax.checkpoint as ocp

from transformer_zoo.effects import Result
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics.classification import LOSSES
from transformer_zoo.training.checkpoints.step_folders import is_bucket

MEAN = "validation/average"
# Metrics of which less is better, whatever the task.
_LOWEST = frozenset({*LOSSES, "invalid"})
_policies = ocp.checkpoint_managers


@dataclasses.dataclass(frozen=True)
class _Saved:
  """A checkpoint as Orbax's policies see it; no rule of ours reads the time."""

  step: int
  time: datetime.datetime = datetime.datetime.min
  metrics: None = None


@gin.register
@dataclasses.dataclass(frozen=True)
class Checkpointing:
  """The rules by which checkpoints are kept, and the treatment of failed saves.

  A checkpoint is kept as long as one of the rules keeps it. The rules depend on
  steps and scores only, not on a clock or on the times of files.

  Attributes:
    newest: The number of newest checkpoints to keep.
    every: A period in steps; checkpoints at its multiples are kept for ever. 0
      keeps none of them.
    best: The number of best checkpoints to keep; 0 keeps none of them.
    metric: The metric that ranks checkpoints, named as in metrics.jsonl:
      'validation/<task>/<metric>', or 'validation/average', the mean of the
      task scores.
    highest: True if the highest value is the best, False if the lowest is.
      None means the lowest for `loss` and `invalid` and the highest for every
      other metric.
    grace_seconds: The seconds between a notice of preemption (SIGTERM) and the
      end of the process. The first save that takes longer is reported.
    folder: The folder of the checkpoints; None means `checkpoints` in the run
      folder.
    stop_at_failed_save: True to end the run when a save fails, False to train
      on to the next save. The last save of a run must succeed in either case.
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
    if "://" in str(self.folder) and not is_bucket(self.folder):
      raise UserError(
        f"Checkpointing.folder={self.folder!r} is not supported: Orbax writes "
        "to local folders and to gs:// URLs; bind MODEL_DIR to a URL of "
        "another scheme instead, and its checkpoints are uploaded"
      )
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
    """The choice of the best checkpoint, in words."""
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
    """Returns the folder of the checkpoints of a run."""
    return self.folder or os.path.join(run, "checkpoints")

  def check_metric(
    self, tasks: Iterable[str], metrics_of: Callable[[str], Iterable[str]]
  ) -> None:
    """Checks that an evaluated task computes the metric.

    Args:
      tasks: The names of the evaluated tasks.
      metrics_of: A function from a task's name to the names of its metrics;
        empty if they are not known yet.

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
    """Returns the value that ranks an evaluation, None if there is none.

    Args:
      values: The recorded values of the evaluation, by name.

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
    """Returns the steps, the best first; ties go to the earlier step."""
    sign = -1 if self._is_highest else 1
    return sorted(scores, key=lambda step: (sign * scores[step], step))

  def kept(self, steps: Iterable[int], scores: Mapping[int, float]) -> set[int]:
    """Returns the steps whose checkpoints are kept.

    Args:
      steps: The steps with a checkpoint.
      scores: The scores of evaluated steps; steps without a checkpoint are
        ignored.
    """
    steps = sorted(steps)
    scored = {step: scores[step] for step in steps if step in scores}
    # Not `BestN`: among equal scores it keeps the latest, and while there are
    # at most n checkpoints it keeps those without a score, too.
    best = self.ranked(scored)[: self.best]
    rules = [_policies.LatestN(self.newest), _policies.CustomSteps(best)]
    if self.every:
      rules.append(_policies.EveryNSteps(self.every))
    preserved = _policies.AnyPreservationPolicy(rules).should_preserve(
      [_Saved(step) for step in steps],
      context=_policies.PreservationContext(),
    )
    return set(itertools.compress(steps, preserved))


KEEP_NEWEST_AND_BEST = Checkpointing()


class Scores:
  """The scores of a run's evaluations, by step."""

  def __init__(
    self,
    options: Checkpointing,
    lines: Iterable[Mapping[str, float]] = (),
  ):
    """Reads the scores of earlier evaluations.

    Args:
      options: The metric and its direction.
      lines: The lines of the run's metrics.jsonl.
    """
    self._options = options
    self.by_step: dict[int, float] = {}
    self.evaluated: set[int] = set()
    for line in lines:
      if any(name.startswith("validation/") for name in line):
        self.add(line["step"], line)

  def add(self, step: int, values: Mapping[str, float]) -> None:
    """Adds the recorded values of the evaluation of a step."""
    self.evaluated.add(step)
    score = self._options.score(values)
    if score is not None:
      # A new dictionary: the thread of a save may be reading the old one.
      self.by_step = {**self.by_step, step: score}

  @property
  def best_step(self) -> int | None:
    """The step with the best score; None without scores."""
    return next(iter(self._options.ranked(self.by_step)), None)

  @property
  def best_score(self) -> float | None:
    """Its score."""
    return self.by_step.get(self.best_step)
