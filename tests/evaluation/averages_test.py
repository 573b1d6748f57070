"""Averages: the printed ones of the T5 paper, and what is missing."""

import csv
import os
import pathlib

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


def _scores(row, columns):
  scores = {}
  for column, (task, metric) in columns.items():
    scores.setdefault(task, {})[metric] = float(row[column])
  return scores


def test_baseline_of_the_paper():
  glue = averages.glue_average(_scores(BASELINE_GLUE, GLUE_COLUMNS))
  super_glue = averages.super_glue_average(
    _scores(BASELINE_SUPER_GLUE, SUPER_GLUE_COLUMNS)
  )
  assert glue == pytest.approx(83.28, abs=0.005)
  assert super_glue == pytest.approx(71.36, abs=0.005)


@pytest.fixture
def table_16():
  """The per-task scores of every experiment of the T5 paper."""
  named = os.environ.get("ZOO_SHARED_DATA")
  root = pathlib.Path(named or pathlib.Path(__file__).parents[3] / "shared")
  name = "reference/t5_tables/table16_all_per_task_scores.csv"
  for path in (root / name, root.parent / name):
    if path.exists():
      return path
  pytest.skip(f"no shared data: {root / name} does not exist")


def test_every_row_of_table_16(table_16):
  rows = [
    row
    for row in csv.DictReader(table_16.read_text(encoding="utf-8").splitlines())
    if "deviation" not in row["experiment"] and row["GLUE_avg"]
  ]
  assert len(rows) > 50
  for row in rows:
    # The cells are rounded to 0.01, so the printed average is off by as much.
    assert averages.glue_average(_scores(row, GLUE_COLUMNS)) == pytest.approx(
      float(row["GLUE_avg"]), abs=0.0151
    ), row["experiment"]
    assert averages.super_glue_average(
      _scores(row, SUPER_GLUE_COLUMNS)
    ) == pytest.approx(float(row["SuperGLUE_avg"]), abs=0.0151), row[
      "experiment"
    ]


@pytest.mark.parametrize("column", GLUE_COLUMNS)
def test_no_average_without_every_member(column):
  scores = _scores(BASELINE_GLUE, GLUE_COLUMNS)
  task, metric = GLUE_COLUMNS[column]
  del scores[task][metric]
  assert averages.glue_average(scores) is None


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


def test_nothing_to_average():
  assert averages.average({}) is None
  assert averages.average({"unscored": {}}) is None
  with pytest.raises(ValueError, match="no score"):
    averages.task_score({})
