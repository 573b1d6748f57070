"""The metrics of tasks that a study has, by the group whose runs score them."""

from collections.abc import Mapping
import math
from typing import NamedTuple

from transformer_zoo.evaluation.metrics.classification import LOSS
from transformer_zoo.studies.execution.results import StudyResults

# Heads the tasks that are scored by runs of no group and are in no column.
NO_GROUP = "other tasks"


class TaskMetric(NamedTuple):
  """A metric of a task, as the runs of a group score it.

  Runs of several groups may score one task, each with a number of its own.
  """

  group: str
  task: str
  metric: str

  @property
  def is_loss(self) -> bool:
    """Whether less of it is better."""
    return self.metric == LOSS

  @property
  def decimals(self) -> int:
    """Digits that are printed."""
    return decimals(self.is_loss)

  @property
  def name(self) -> str:
    """What it is called where its group is known."""
    return f"{self.task}: {self.metric}"

  def __str__(self) -> str:
    return f"{self.group} / {self.name}"

  def of(self, scores: Mapping[str, Mapping[str, float]]) -> float | None:
    """Returns its finite value in `{task: {metric: value}}`, or None."""
    value = scores.get(self.task, {}).get(self.metric)
    return value if value is not None and math.isfinite(value) else None


def of_study(study: StudyResults) -> dict[str, tuple[TaskMetric, ...]]:
  """By group, the metrics of all its tasks; those of no group last."""
  groups = {}  # Group -> its tasks in order -> their metrics in order.
  for column in study.columns:
    tasks = groups.setdefault(column.of_group, {})
    tasks |= {task: {} for task in column.tasks if task not in tasks}
  scored = [run for run in study.runs if run.scored]
  # A run that is the same for all groups scores the tasks that they have.
  for run in sorted(scored, key=lambda run: not run.group):
    for task, metrics in run.scores.items():
      having = [run.group] if run.group else _having(groups, task)
      for group in having:
        groups.setdefault(group, {}).setdefault(task, {}).update(metrics)
  named = {
    group: tuple(TaskMetric(group, t, m) for t in tasks for m in tasks[t])
    for group, tasks in groups.items()
  }
  return {group: metrics for group, metrics in named.items() if metrics}


def _having(groups, task) -> list[str]:
  return [g for g, tasks in groups.items() if task in tasks] or [NO_GROUP]


def decimals(is_loss: bool) -> int:
  """Returns how many digits of a score are printed."""
  return 3 if is_loss else 2  # Losses, in nats, differ by little.
