"""Averages: the printed ones of the T5 paper, and what is missing."""

import csv
import math
import os
import pathlib

import numpy as np
import pytest

from transformer_zoo.evaluation import averages

GLUE_COLUMNS = {
  "CoLA_MCC": ("glue_cola_v002", "matthews_corrcoef"),
  "SST2_Acc": ("glue_sst2_v002", "accuracy"),
  "MRPC_F1": ("glue_mrpc_v002", "f1"),
  "MRPC_Acc": ("glue_mrpc_v002", "accuracy"),
  "STSB_PCC": ("glue_stsb_v002", "pearson_corrcoef"),
  "STSB_SCC": ("glue_stsb_v002", "spearman_corrcoef"),
  "QQP_F1": ("glue_qqp_v002", "f1"),
  "QQP_Acc": ("glue_qqp_v002", "accuracy"),
  "MNLIm_Acc": ("glue_mnli_matched_v002", "accuracy"),
  "MNLImm_Acc": ("glue_mnli_mismatched_v002", "accuracy"),
  "QNLI_Acc": ("glue_qnli_v002", "accuracy"),
  "RTE_Acc": ("glue_rte_v002", "accuracy"),
}
SUPER_GLUE_COLUMNS = {
  "BoolQ_Acc": ("super_glue_boolq_v102", "accuracy"),
  "CB_F1": ("super_glue_cb_v102", "mean_3class_f1"),
  "CB_Acc": ("super_glue_cb_v102", "accuracy"),
  "COPA_Acc": ("super_glue_copa_v102", "accuracy"),
  "MultiRC_F1": ("super_glue_multirc_v102", "f1"),
  "MultiRC_EM": ("super_glue_multirc_v102", "exact_match"),
  "ReCoRD_F1": ("super_glue_record_v102", "f1"),
  "ReCoRD_EM": ("super_glue_record_v102", "em"),
  "SG_RTE_Acc": ("super_glue_rte_v102", "accuracy"),
  "WiC_Acc": ("super_glue_wic_v102", "accuracy"),
  "WSC_Acc": ("super_glue_wsc_v102_simple_eval", "accuracy"),
}
# The server's average over the test sets counts WNLI.
GLUE_TEST_GROUPS = averages.GLUE_GROUPS | {
  "WNLI": (("glue_wnli_v002_simple_eval", "accuracy"),),
}
# The columns of table 14, in the same order.
GLUE_TEST_COLUMNS = dict(
  zip(
    [
      "GLUE_CoLA_MCC",
      "GLUE_SST-2_Accuracy",
      "GLUE_MRPC_F1",
      "GLUE_MRPC_Accuracy",
      "GLUE_STS-B_Pearson",
      "GLUE_STS-B_Spearman",
      "GLUE_QQP_F1",
      "GLUE_QQP_Accuracy",
      "GLUE_MNLI-m_Accuracy",
      "GLUE_MNLI-mm_Accuracy",
      "GLUE_QNLI_Accuracy",
      "GLUE_RTE_Accuracy",
      "GLUE_WNLI_Accuracy",
    ],
    [*GLUE_COLUMNS.values(), ("glue_wnli_v002_simple_eval", "accuracy")],
    strict=True,
  )
)
SUPER_GLUE_TEST_COLUMNS = dict(
  zip(
    [
      "SuperGLUE_BoolQ_Accuracy",
      "SuperGLUE_CB_F1",
      "SuperGLUE_CB_Accuracy",
      "SuperGLUE_COPA_Accuracy",
      "SuperGLUE_MultiRC_F1a",
      "SuperGLUE_MultiRC_EM",
      "SuperGLUE_ReCoRD_F1",
      "SuperGLUE_ReCoRD_Accuracy",
      "SuperGLUE_RTE_Accuracy",
      "SuperGLUE_WiC_Accuracy",
      "SuperGLUE_WSC_Accuracy",
    ],
    SUPER_GLUE_COLUMNS.values(),
    strict=True,
  )
)
# The first row of table 16, "Baseline average": 83.28 and 71.36 are printed.
BASELINE_GLUE = dict(
  zip(
    GLUE_COLUMNS,
    # fmt: off
    [
      53.84,
      92.68,
      92.07,
      88.92,
      88.02,
      87.94,
      88.67,
      91.56,
      84.24,
      84.57,
      90.48,
      76.28,
    ],
    # fmt: on
    strict=True,
  )
)
BASELINE_SUPER_GLUE = dict(
  zip(
    SUPER_GLUE_COLUMNS,
    # fmt: off
    [
      76.62,
      91.22,
      91.96,
      66.20,
      66.13,
      25.78,
      69.05,
      68.16,
      75.34,
      68.04,
      78.56,
    ],
    # fmt: on
    strict=True,
  )
)


def test_templates_are_reported_by_medians_and_quartiles():
  scores = {
    "a_1": {"accuracy": 50.0},
    "a_2": {"accuracy": 60.0},
    "a_3": {"accuracy": 90.0},
    "b_1": {"f1": 10.0, "accuracy": 30.0},
    "other": {"accuracy": 1.0},
    "untested": {},
  }
  sets = {"a_1": "a", "a_2": "a", "a_3": "a", "b_1": "b", "untested": "c"}
  found = averages.of_templates(scores, sets)
  assert found == {
    "sets": {
      "a": {"templates": 3, "median": 60.0, "quartiles": (55.0, 75.0)},
      "b": {"templates": 1, "median": 20.0, "quartiles": (20.0, 20.0)},
    },
    "average": 40.0,
  }
  assert averages.of_templates({}, {"a_1": "a"})["average"] is None


def test_quartiles_are_numpys():
  values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
  expected = np.percentile(values, [25, 75])
  assert averages.quartiles(values) == pytest.approx(tuple(expected))


def _scores(row, columns):
  scores = {}
  for column, (task, metric) in columns.items():
    scores.setdefault(task, {})[metric] = float(row[column])
  return scores


def _glue_test_average(row):
  scores = _scores(row, GLUE_TEST_COLUMNS)
  return averages.average_of_groups(scores, GLUE_TEST_GROUPS)


BASELINE_SCORES = _scores(BASELINE_GLUE, GLUE_COLUMNS) | _scores(
  BASELINE_SUPER_GLUE, SUPER_GLUE_COLUMNS
)


def test_baseline_of_the_paper():
  glue = averages.glue_average(_scores(BASELINE_GLUE, GLUE_COLUMNS))
  super_glue = averages.super_glue_average(
    _scores(BASELINE_SUPER_GLUE, SUPER_GLUE_COLUMNS)
  )
  assert glue == pytest.approx(83.28, abs=0.005)
  assert super_glue == pytest.approx(71.36, abs=0.005)


@pytest.fixture
def read_table():
  """Reads a results table of the T5 paper."""

  def read(name):
    named = os.environ.get("ZOO_SHARED_DATA")
    root = pathlib.Path(named or pathlib.Path(__file__).parents[3] / "shared")
    folder = pathlib.Path("reference", "t5_tables")
    for path in (root / folder / name, root.parent / folder / name):
      if path.exists():
        return list(csv.DictReader(path.read_text("utf-8").splitlines()))
    pytest.skip(f"no shared data: {root / folder / name} does not exist")

  return read


def test_every_row_of_table_16(read_table):
  rows = read_table("table16_all_per_task_scores.csv")
  rows = [row for row in rows if "deviation" not in row["experiment"]]
  assert len(rows) == 68
  for row in rows:
    # No member is left out of the columns here: they are all of the table's.
    columns = list(row)
    first, last = columns.index("GLUE_avg"), columns.index("CNNDM_R1F")
    assert columns[first + 1 : last] == list(GLUE_COLUMNS)
    first, last = columns.index("SuperGLUE_avg"), columns.index("EnDe_BLEU")
    assert columns[first + 1 : last] == list(SUPER_GLUE_COLUMNS)
    glue = averages.glue_average(_scores(row, GLUE_COLUMNS))
    assert glue == pytest.approx(float(row["GLUE_avg"]), abs=0.01)
    super_glue = averages.super_glue_average(_scores(row, SUPER_GLUE_COLUMNS))
    assert super_glue == pytest.approx(float(row["SuperGLUE_avg"]), abs=0.01)


def test_test_scores_of_table_14(read_table):
  rows = read_table("table14_final_test_results.csv")
  rows = {r["model"]: r for r in rows if r["model"].startswith("T5-")}
  assert len(rows) == 5
  for model, row in rows.items():
    assert round(_glue_test_average(row), 1) == float(row["GLUE_avg"])
    # Eight groups give another number: WNLI belongs to the test average.
    glue = averages.glue_average(_scores(row, GLUE_TEST_COLUMNS))
    assert round(glue, 1) != float(row["GLUE_avg"])
    super_glue = averages.super_glue_average(
      _scores(row, SUPER_GLUE_TEST_COLUMNS)
    )
    # The cells of the largest model average to 89.25; 88.9 is printed.
    printed = 89.25 if model == "T5-11B" else float(row["SuperGLUE_avg"])
    assert super_glue == pytest.approx(printed, abs=0.0501)


def test_test_average_of_the_published_models():
  # T5 paper, table 14: T5-Small and T5-Base, in the order of the columns.
  small = [41.0, 91.8, 89.7, 86.6, 85.6, 85.0, 70.0, 88.0, 82.4, 82.3, 90.3]
  small += [69.9, 69.2]
  base = [51.1, 95.2, 90.7, 87.5, 89.4, 88.6, 72.6, 89.4, 87.1, 86.2, 93.7]
  base += [80.1, 78.8]
  for cells, printed in ((small, 77.4), (base, 82.7)):
    row = dict(zip(GLUE_TEST_COLUMNS, cells, strict=True))
    assert round(_glue_test_average(row), 1) == printed


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("column", [*GLUE_COLUMNS, *SUPER_GLUE_COLUMNS])
def test_no_average_without_every_member(column, value):
  scores = BASELINE_SCORES | {}
  task, metric = (GLUE_COLUMNS | SUPER_GLUE_COLUMNS)[column]
  scores[task] = {k: v for k, v in scores[task].items() if k != metric}
  if value is not None:
    scores[task][metric] = value
  hit = column in GLUE_COLUMNS
  assert (averages.glue_average(scores) is None) == hit
  assert (averages.super_glue_average(scores) is None) == (not hit)
  groups = averages.GLUE_GROUPS if hit else averages.SUPER_GLUE_GROUPS
  assert averages.missing_members(scores, groups) == [f"{task}/{metric}"]


def test_describe_and_report_what_is_there():
  assert averages.describe({"mini_cola": {"matthews_corrcoef": 1.0}}) == {}
  assert averages.report({}) == []
  scores = dict(BASELINE_SCORES)
  assert averages.describe(scores) == {
    "glue": pytest.approx(83.28, abs=0.005),
    "glue_missing": [],
    "super_glue": pytest.approx(71.36, abs=0.005),
    "super_glue_missing": [],
  }
  assert averages.report(scores) == [
    "GLUE average of 8 tasks: 83.28",
    "SuperGLUE average of 8 tasks: 71.36",
  ]
  del scores["glue_qqp_v002"], scores["glue_mnli_matched_v002"]
  for task in list(scores):
    if task.startswith("super_glue"):
      del scores[task]
  missing = [
    "glue_qqp_v002/f1",
    "glue_qqp_v002/accuracy",
    "glue_mnli_matched_v002/accuracy",
  ]
  assert averages.describe(scores) == {"glue": None, "glue_missing": missing}
  assert averages.report(scores) == [
    "GLUE average: not given, without a score of glue_qqp_v002/f1, "
    "glue_qqp_v002/accuracy, glue_mnli_matched_v002/accuracy"
  ]


def test_the_same_task_by_another_name_counts_where_its_own_is_absent():
  expected = averages.super_glue_average(BASELINE_SCORES)
  for other, member in averages.SAME_TASKS.items():
    scores = dict(BASELINE_SCORES)
    scores[other] = dict.fromkeys(scores[member], 0.0)
    assert averages.super_glue_average(scores) == expected
    scores[other] = scores.pop(member)
    assert averages.super_glue_average(scores) == expected


def test_a_prompted_task_or_another_version_stands_for_no_member():
  scores = dict(BASELINE_SCORES)
  scores["super_glue_copa_prompted"] = scores.pop("super_glue_copa_v102")
  scores["glue_rte_v003"] = scores.pop("glue_rte_v002")
  assert averages.describe(scores) == {
    "glue": None,
    "glue_missing": ["glue_rte_v002/accuracy"],
    "super_glue": None,
    "super_glue_missing": ["super_glue_copa_v102/accuracy"],
  }


def test_other_tasks_do_not_count():
  scores = _scores(BASELINE_GLUE, GLUE_COLUMNS)
  scores["glue_wnli_v002"] = {"accuracy": 0.0}
  assert averages.glue_average(scores) == pytest.approx(83.28, abs=0.005)


def test_task_score_and_plain_average():
  scores = {
    "mrpc": {"f1": 90.0, "accuracy": 80.0},
    "cola": {"matthews_corrcoef": 45.0},
    "unscored": {},
  }
  assert averages.task_score(scores["mrpc"]) == 85.0
  assert averages.average(scores) == 65.0


def test_scores_of_a_part_are_no_score_of_the_task():
  metrics = {"em": 60.0, "f1": 70.0, "has_answer_f1": 0.0, "no_answer_em": 0.0}
  assert averages.task_score(metrics) == 65.0


def test_a_coefficient_counts_at_the_median_alone():
  metrics = {"matthews_at_median": 10.0, "matthews_at_best": 30.0}
  assert averages.task_score(metrics) == 10.0


def test_nothing_to_average():
  assert averages.average({}) is None
  assert averages.average({"unscored": {}}) is None
  assert averages.average({"lm": {"loss": 3.0}}) is None
  assert averages.average({"lm": {"loss": 3.0}, "cola": {"f1": 8.0}}) == 8.0
  with pytest.raises(ValueError, match="no score"):
    averages.task_score({})


SCORES = {
  20: {"a": {"f1": 50.0, "accuracy": 70.0}, "b": {"accuracy": 10.0}},
  4: {"a": {"f1": 60.0, "accuracy": 60.0}, "b": {"accuracy": 40.0}},
  8: {"a": {"f1": 80.0, "accuracy": 60.0}, "b": {"accuracy": 20.0}},
}


def test_per_task_and_per_group():
  chosen = averages.choose(SCORES)
  assert chosen["tasks"] == {
    "a": {
      "step": 8,
      "score": 70.0,
      "scores": {"f1": 80.0, "accuracy": 60.0},
    },
    "b": {"step": 4, "score": 40.0, "scores": {"accuracy": 40.0}},
  }
  assert chosen["mean_of_best"] == 55.0
  assert chosen["groups"] == {"all tasks": {"step": 4, "average": 50.0}}
  assert "mean of the task's metrics" in chosen["task_rule"]
  assert "one step for all its tasks" in chosen["group_rule"]


def test_both_sets_of_mnli_are_of_one_step():
  """As t5's metric_group_max: the mean of both is the highest at step 2."""
  sets = ("glue_mnli_matched_v002", "glue_mnli_mismatched_v002")
  scores = {
    step: {sets[0]: {"accuracy": both[0]}, sets[1]: {"accuracy": both[1]}}
    for step, both in {1: (80.0, 70.0), 2: (79.0, 75.0), 3: (60, 76)}.items()
  }
  chosen = averages.choose(scores)
  assert [chosen["tasks"][task]["step"] for task in sets] == [2, 2]
  assert [chosen["tasks"][task]["score"] for task in sets] == [79.0, 75.0]
  assert chosen["mean_of_best"] == 77.0
  del scores[2][sets[1]]
  chosen = averages.choose(scores)
  assert [chosen["tasks"][task]["step"] for task in sets] == [2, 1]


def test_an_undefined_score_is_never_the_best():
  steps = {1: {"a": {"r": math.nan}}, 2: {"a": {"r": -3.0}}}
  chosen = averages.choose(steps)
  assert chosen["tasks"]["a"]["step"] == 2
  assert chosen["groups"] == {"all tasks": {"step": 2, "average": -3.0}}


def test_of_equal_steps_the_first():
  chosen = averages.choose({9: {"a": {"f1": 5.0}}, 3: {"a": {"f1": 5.0}}})
  assert chosen["tasks"]["a"]["step"] == 3
  assert chosen["groups"]["all tasks"]["step"] == 3


def test_a_benchmark_only_with_all_its_members():
  whole = {}
  for members in averages.GLUE_GROUPS.values():
    for task, metric in members:
      whole.setdefault(task, {})[metric] = 80.0
  partial = {k: v for k, v in whole.items() if k != "glue_rte_v002"}
  partial["glue_cola_v002"] = {"matthews_corrcoef": 99.0}
  chosen = averages.choose({1: whole, 2: partial})
  assert chosen["groups"]["GLUE"] == {"step": 1, "average": 80.0}
  assert "SuperGLUE" not in chosen["groups"]


def test_without_scores_there_is_no_best():
  chosen = averages.choose({1: {}, 2: {}})
  assert chosen["tasks"] == {} and chosen["groups"] == {}
  assert chosen["mean_of_best"] is None


def test_a_loss_is_no_score_to_choose_by():
  chosen = averages.choose({1: {"lm": {"loss": 3.0}, "a": {"f1": 5.0}}})
  assert list(chosen["tasks"]) == ["a"] and chosen["mean_of_best"] == 5.0
  assert averages.choose({1: {"lm": {"loss": 3.0}}})["groups"] == {}


def test_of_perplexity_the_lowest_is_the_best_and_in_no_mean():
  steps = {
    1: {"a": {"f1": 5.0, "perplexity": 2.0}, "b": {"perplexity": 9.0}},
    2: {"a": {"f1": 4.0, "perplexity": 1.0}, "b": {"perplexity": 7.0}},
    3: {"a": {"f1": 3.0}, "b": {"perplexity": math.nan}},
  }
  chosen = averages.choose(steps)
  assert {t: found["step"] for t, found in chosen["tasks"].items()} == {
    "a": 1,
    "b": 2,
  }
  assert chosen["tasks"]["b"]["score"] == 7.0
  assert chosen["mean_of_best"] == 5.0
  assert averages.average(steps[1]) == 5.0
