"""The best of several checkpoints: per task, and per group of tasks."""

from collections.abc import Mapping
import math
from typing import Any

from transformer_zoo.evaluation import averages

# As metric_group_max of t5/evaluation/eval_utils.py does it.
TASK_RULE = (
  "highest mean of the task's metrics, of MNLI's over both its sets; of equal "
  "steps the first"
)
GROUP_RULE = (
  "highest average over the group, one step for all its tasks; of equal steps "
  "the first"
)
_GROUPS = {
  "all tasks": averages.average,
  "GLUE": averages.glue_average,
  "SuperGLUE": averages.super_glue_average,
}


def choose(scores: Mapping[int, averages.Scores]) -> dict[str, Any]:
  """Chooses the best step for each task and for each group of tasks.

  Args:
    scores: step -> {task: {metric: value}}.

  Returns:
    `tasks`: {task: {step, score, scores}}; `mean_of_best`, the mean of these
    scores, None without any; `task_rule`; `groups`: {group: {step, average}},
    where a benchmark is left out unless all of its members are there;
    `group_rule`.
  """
  steps = sorted(scores)
  tasks = {}
  for task in sorted({task for step in steps for task in scores[step]}):
    together = averages.tasks_of_member(task)
    values = {
      step: averages.average(
        {name: scores[step].get(name, {}) for name in together}
      )
      for step in steps
      if averages.has_score(scores[step].get(task, {}))
    }
    if values:
      step = _highest(values)
      tasks[task] = {
        "step": step,
        "score": averages.task_score(scores[step][task]),
        "scores": dict(scores[step][task]),
      }
  groups = {}
  for name, average in _GROUPS.items():
    averages_by_step = {step: average(scores[step]) for step in steps}
    values = {k: v for k, v in averages_by_step.items() if v is not None}
    if values:
      step = _highest(values)
      groups[name] = {"step": step, "average": values[step]}
  bests = [found["score"] for found in tasks.values()]
  return {
    "tasks": tasks,
    "task_rule": TASK_RULE,
    "mean_of_best": sum(bests) / len(bests) if bests else None,
    "groups": groups,
    "group_rule": GROUP_RULE,
  }


def _highest(values: Mapping[int, float]) -> int:
  """The first step of the highest value that is a number, if any is.

  A correlation with constants is none.
  """
  return max(
    values, key=lambda step: (math.isfinite(values[step]), values[step])
  )
