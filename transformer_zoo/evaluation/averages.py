"""Averages over tasks: GLUE and SuperGLUE as T5 reports them, and a plain one.

Scores are `{task: {metric: value in percent}}`, as a run's `result.json`
holds them. An average is None as long as one of its members is missing, so
that a mean over part of a benchmark never goes by the benchmark's name.
"""

from collections.abc import Mapping

Scores = Mapping[str, Mapping[str, float]]

# Groups of (task, metric); a group counts once. t5/evaluation/eval_utils.py,
# METRIC_NAMES and compute_avg_glue. The validation average has 8 groups: WNLI
# and ax are left out. (The published test averages count WNLI as a ninth.)
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


def glue_average(scores: Scores) -> float | None:
  """Returns the mean of the 8 groups of GLUE, None unless all exist."""
  return _average_of_groups(scores, GLUE_GROUPS)


def super_glue_average(scores: Scores) -> float | None:
  """Returns the mean of the 8 groups of SuperGLUE, None unless all exist."""
  return _average_of_groups(scores, SUPER_GLUE_GROUPS)


def task_score(metrics: Mapping[str, float]) -> float:
  """Returns the one number of a task: the mean of its metrics.

  GLUE's own rule for its two-metric tasks (F1 and accuracy, Pearson and
  Spearman), applied to any task.

  Raises:
    ValueError: the task has no metric.
  """
  if not metrics:
    raise ValueError("a task without metrics has no score")
  return sum(metrics.values()) / len(metrics)


def average(scores: Scores) -> float | None:
  """Returns the mean of `task_score` over the tasks, each counting the same.

  This is the average of the miniature suite and of studies on part of a
  benchmark, and is not comparable with a GLUE or SuperGLUE average. A task
  without metrics is left out; None where nothing is left.
  """
  values = [task_score(metrics) for metrics in scores.values() if metrics]
  return sum(values) / len(values) if values else None


def _average_of_groups(
  scores: Scores, groups: Mapping[str, tuple[tuple[str, str], ...]]
) -> float | None:
  """Returns the mean of the groups' means, None unless all are there."""
  means = []
  for members in groups.values():
    values = [scores.get(task, {}).get(metric) for task, metric in members]
    if None in values:
      return None
    means.append(sum(values) / len(values))
  return sum(means) / len(means)
