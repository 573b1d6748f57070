"""Averages over tasks: GLUE and SuperGLUE as T5 reports them, and a plain one.

Scores are `{task: {metric: value in percent}}`, as a run's `result.json`
holds them. A benchmark's average is None as long as one of its members is
missing or not a finite number, so that a mean over part of a benchmark never
goes by the benchmark's name. `choose` finds the best of several checkpoints,
for each task and for each group of tasks.

Members go by the names of the t5 package's tasks. `SAME_TASKS` has the few
other names that count; any other task (prompted, few-shot, of another version)
has a score of its own and stands for no member.
"""

from collections.abc import Mapping, Sequence
import math
import statistics
from typing import Any

from transformer_zoo.evaluation.metrics.classification import LOSSES
from transformer_zoo.evaluation.metrics.classification import PERPLEXITIES

Scores = Mapping[str, Mapping[str, float]]
# Group -> its (task, metric) members; a group counts once.
Groups = Mapping[str, tuple[tuple[str, str], ...]]

# t5/evaluation/eval_utils.py, METRIC_NAMES and compute_avg_glue. The validation
# average has 8 groups: WNLI and ax are left out.
GLUE_GROUPS = {
  "CoLA": (("glue_cola_v002", "matthews_corrcoef"),),
  "SST-2": (("glue_sst2_v002", "accuracy"),),
  "MRPC": (("glue_mrpc_v002", "f1"), ("glue_mrpc_v002", "accuracy")),
  "STS-B": (
    ("glue_stsb_v002", "pearson_corrcoef"),
    ("glue_stsb_v002", "spearman_corrcoef"),
  ),
  "QQP": (("glue_qqp_v002", "f1"), ("glue_qqp_v002", "accuracy")),
  "MNLI": (
    ("glue_mnli_matched_v002", "accuracy"),
    ("glue_mnli_mismatched_v002", "accuracy"),
  ),
  "QNLI": (("glue_qnli_v002", "accuracy"),),
  "RTE": (("glue_rte_v002", "accuracy"),),
}

# DPR, axb and axg are left out.
SUPER_GLUE_GROUPS = {
  "BoolQ": (("super_glue_boolq_v102", "accuracy"),),
  "CB": (
    ("super_glue_cb_v102", "mean_3class_f1"),
    ("super_glue_cb_v102", "accuracy"),
  ),
  "COPA": (("super_glue_copa_v102", "accuracy"),),
  "MultiRC": (
    ("super_glue_multirc_v102", "f1"),
    ("super_glue_multirc_v102", "exact_match"),
  ),
  "ReCoRD": (
    ("super_glue_record_v102", "f1"),
    ("super_glue_record_v102", "em"),
  ),
  "RTE": (("super_glue_rte_v102", "accuracy"),),
  "WiC": (("super_glue_wic_v102", "accuracy"),),
  "WSC": (("super_glue_wsc_v102_simple_eval", "accuracy"),),
}


# Task -> the member for which it counts where that itself is absent: the same
# examples and metric, with one sentinel in the format; WSC with marked words.
SAME_TASKS = {
  "super_glue_boolq_v102_1_sentinel": "super_glue_boolq_v102",
  "super_glue_cb_v102_1_sentinel": "super_glue_cb_v102",
  "super_glue_copa_v102_1_sentinel": "super_glue_copa_v102",
  "super_glue_multirc_v102_1_sentinel": "super_glue_multirc_v102",
  "super_glue_record_v102_1_sentinel": "super_glue_record_v102",
  "super_glue_rte_v102_1_sentinel": "super_glue_rte_v102",
  "super_glue_wic_v102_1_sentinel": "super_glue_wic_v102",
  "super_glue_wsc_v102_simple_1_sentinel_eval": (
    "super_glue_wsc_v102_simple_eval"
  ),
  "super_glue_wsc_v102": "super_glue_wsc_v102_simple_eval",
}

# Key of `describe` -> name and groups. That of GLUE's test sets, which counts
# WNLI, is not among them: their labels are hidden, and the server gives it.
_BENCHMARKS = {
  "glue": ("GLUE", GLUE_GROUPS),
  "super_glue": ("SuperGLUE", SUPER_GLUE_GROUPS),
}
# Beginnings of names beside the scores of a task: of a part of its examples, or
# of the threshold that its labels choose (`classification.acceptability`).
_BESIDE = ("has_answer_", "no_answer_", "matthews_at_best")


def glue_average(scores: Scores) -> float | None:
  """Returns the mean of the 8 groups of GLUE, None unless all exist."""
  return average_of_groups(scores, GLUE_GROUPS)


def super_glue_average(scores: Scores) -> float | None:
  """Returns the mean of the 8 groups of SuperGLUE, None unless all exist."""
  return average_of_groups(scores, SUPER_GLUE_GROUPS)


def average_of_groups(scores: Scores, groups: Groups) -> float | None:
  """Returns the mean of the groups' means, None unless every member exists."""
  if missing_members(scores, groups):
    return None
  means = [
    sum(_value(scores, *member) for member in members) / len(members)
    for members in groups.values()
  ]
  return sum(means) / len(means)


def missing_members(scores: Scores, groups: Groups) -> list[str]:
  """Returns the members without a score, as `<task>/<metric>` in order."""
  return [
    f"{task}/{metric}"
    for members in groups.values()
    for task, metric in members
    if _value(scores, task, metric) is None
  ]


def describe(scores: Scores) -> dict[str, Any]:
  """Returns the averages of the benchmarks that `scores` has members of.

  Returns:
    For each of them, `glue` and `super_glue`: the average or None, and under
    `glue_missing` or `super_glue_missing` its `missing_members`.
  """
  described = {}
  for key, (_, groups) in _BENCHMARKS.items():
    missing = missing_members(scores, groups)
    if len(missing) < sum(map(len, groups.values())):
      described[key] = average_of_groups(scores, groups)
      described[f"{key}_missing"] = missing
  return described


def report(scores: Scores) -> list[str]:
  """Returns `describe` as one line for each benchmark."""
  described, lines = describe(scores), []
  for key, (name, groups) in _BENCHMARKS.items():
    if key not in described:
      continue
    if described[key] is None:
      members = ", ".join(described[f"{key}_missing"])
      lines.append(f"{name} average: not given, without a score of {members}")
    else:
      lines.append(
        f"{name} average of {len(groups)} tasks: {described[key]:.2f}"
      )
  return lines


def of_templates(
  scores: Scores, template_of: Mapping[str, str]
) -> dict[str, Any]:
  """Returns what the templates of each set score together.

  Prompted models are reported by the median over templates and the quartiles
  (Sanh et al. 2022, section 6; Liu et al. 2022, section 3).

  Args:
    scores: The scores of all tasks.
    template_of: task -> the set of which it is a template, of those that are.

  Returns:
    `sets`: {set: {`templates`: their number, `median`, `quartiles`}} of
    `task_score`; `average`: the mean of the medians, None without any.
  """
  sets = {}
  for task, name in template_of.items():
    if has_score(scores.get(task, {})):
      sets.setdefault(name, []).append(task_score(scores[task]))
  found = {
    name: {
      "templates": len(values),
      "median": statistics.median(values),
      "quartiles": quartiles(values),
    }
    for name, values in sets.items()
  }
  medians = [each["median"] for each in found.values()]
  average_of = statistics.fmean(medians) if medians else None
  return {"sets": found, "average": average_of}


def quartiles(values: Sequence[float]) -> tuple[float, float]:
  """Returns the first and the third quartile, between values linearly."""
  if len(values) < 2:
    return values[0], values[0]
  low, _, high = statistics.quantiles(values, n=4, method="inclusive")
  return low, high


def has_score(metrics: Mapping[str, float]) -> bool:
  """Whether `task_score` finds a score among a task's metrics."""
  return any(map(_is_score, metrics))


def task_score(metrics: Mapping[str, float]) -> float:
  """Returns the one number of a task: the mean of its metrics.

  GLUE's own rule for its two-metric tasks (F1 and accuracy, Pearson and
  Spearman), applied to any task. Scores of a part of the examples
  (`has_answer_f1` of SQuAD 2.0) and of a threshold that the labels choose
  (`matthews_at_best`) are left out, as are losses and perplexities, which are
  no scores.

  Raises:
    ValueError: the task has no metric.
  """
  values = [value for name, value in metrics.items() if _is_score(name)]
  if not values:
    raise ValueError("a task without metrics has no score")
  return sum(values) / len(values)


def tasks_of_member(task: str) -> tuple[str, ...]:
  """Returns the tasks that are one member of a benchmark with a task.

  The two of MNLI; of every other task itself alone.
  """
  for _, groups in _BENCHMARKS.values():
    for members in groups.values():
      tasks = tuple(dict.fromkeys(name for name, _ in members))
      if task in tasks:
        return tasks
  return (task,)


def average(scores: Scores) -> float | None:
  """Returns the mean of `task_score` over the tasks, each counting the same.

  This is the average of the miniature suite and of studies on part of a
  benchmark, and is not comparable with a GLUE or SuperGLUE average. A task
  without a score is left out; None where nothing is left.
  """
  values = [task_score(each) for each in scores.values() if has_score(each)]
  return sum(values) / len(values) if values else None


def _is_score(metric: str) -> bool:
  return metric not in LOSSES and not metric.startswith(_BESIDE)


def _perplexity(metrics: Mapping[str, float]) -> float | None:
  """The perplexity of a task, per token if it is known; None without any."""
  return next((metrics[name] for name in PERPLEXITIES if name in metrics), None)


def _value(scores: Scores, task: str, metric: str) -> float | None:
  """Returns the score of a member, by its own name or one of `SAME_TASKS`."""
  names = [task, *(name for name, same in SAME_TASKS.items() if same == task)]
  values = (scores.get(name, {}).get(metric) for name in names)
  known = (v for v in values if v is not None and math.isfinite(v))
  return next(known, None)


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
  "all tasks": average,
  "GLUE": glue_average,
  "SuperGLUE": super_glue_average,
}


def choose(scores: Mapping[int, Scores]) -> dict[str, Any]:
  """Chooses the best step for each task and for each group of tasks.

  Args:
    scores: step -> {task: {metric: value}}.

  Returns:
    `tasks`: {task: {step, score, scores}}; `mean_of_best`, the mean of these
    scores, None without any; `task_rule`; `groups`: {group: {step, average}},
    where a benchmark is left out unless all of its members are there;
    `group_rule`. A task with perplexity alone is at the step of the lowest,
    which is its score and is in no mean.
  """
  steps = sorted(scores)
  tasks, bests = {}, []
  for task in sorted({task for step in steps for task in scores[step]}):
    together = tasks_of_member(task)
    values = {
      step: average({name: scores[step].get(name, {}) for name in together})
      for step in steps
      if has_score(scores[step].get(task, {}))
    }
    if values:
      step = _highest(values)
      tasks[task] = {
        "step": step,
        "score": task_score(scores[step][task]),
        "scores": dict(scores[step][task]),
      }
      bests.append(tasks[task]["score"])
      continue
    found = {step: _perplexity(scores[step].get(task, {})) for step in steps}
    negated = {step: -one for step, one in found.items() if one is not None}
    if negated:
      step = _highest(negated)
      tasks[task] = {
        "step": step,
        "score": found[step],
        "scores": dict(scores[step][task]),
      }
  groups = {}
  for name, average_of in _GROUPS.items():
    by_step = {step: average_of(scores[step]) for step in steps}
    values = {k: v for k, v in by_step.items() if v is not None}
    if values:
      step = _highest(values)
      groups[name] = {"step": step, "average": values[step]}
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
