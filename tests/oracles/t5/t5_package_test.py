"""Our tasks against those of the t5 package, row by row: make test-oracles.

Both make text of the same rows and score the same predictions; the first line
that differs is shown. `text_to_text_rows` says what is compared.
"""

import pytest

from tasks.formats import labelled_text
from tests.oracles.t5 import odd_rows
from tests.oracles.t5 import row_by_row
from tests.oracles.t5 import text_to_text_rows
from transformer_zoo.evaluation.answers import post_processors

# Task, data set, splits: every set of the data folder, over whole splits.
ALL = ("train", "validation", "test")
ON_DISK = [
  ("glue_cola_v002", "glue/cola:2.0.0", ALL),
  ("glue_sst2_v002", "glue/sst2:2.0.0", ALL),
  ("glue_mrpc_v002", "glue/mrpc:2.0.0", ALL),
  ("glue_stsb_v002", "glue/stsb:2.0.0", ALL),
  ("glue_qnli_v002", "glue/qnli:2.0.0", ("validation", "test")),
  ("glue_rte_v002", "glue/rte:2.0.0", ALL),
  ("glue_wnli_v002", "glue/wnli:2.0.0", ALL),
  ("glue_wnli_v002_simple_eval", "glue/wnli:2.0.0", ("validation", "test")),
  ("super_glue_boolq_v102", "super_glue/boolq:1.0.2", ALL),
  ("super_glue_cb_v102", "super_glue/cb:1.0.2", ALL),
  ("super_glue_copa_v102", "super_glue/copa:1.0.2", ALL),
  ("super_glue_record_v102", "super_glue/record:1.0.2", ("train",)),
  ("super_glue_rte_v102", "super_glue/rte:1.0.2", ALL),
  ("super_glue_axb_v102", "super_glue/axb:1.0.2", ("test",)),
  ("super_glue_axg_v102", "super_glue/axg:1.0.2", ("test",)),
  ("super_glue_wic_v102", "super_glue/wic:1.0.2", ALL),
  ("super_glue_wsc_v102", "super_glue/wsc:1.0.2", ALL),
  ("super_glue_wsc_v102", "super_glue/wsc.fixed:1.0.2", ALL),
  (
    "super_glue_wsc_v102_simple_train",
    "super_glue/wsc.fixed:1.0.2",
    ("train",),
  ),
  (
    "super_glue_wsc_v102_simple_eval",
    "super_glue/wsc.fixed:1.0.2",
    ("validation", "test"),
  ),
]

# Task, data set: rows in memory with the features of the data set.
IN_MEMORY = [
  ("glue_cola_v002", "glue/cola:2.0.0"),
  ("glue_sst2_v002", "glue/sst2:2.0.0"),
  ("glue_mrpc_v002", "glue/mrpc:2.0.0"),
  ("glue_qqp_v002", "glue/qqp:2.0.0"),
  ("glue_stsb_v002", "glue/stsb:2.0.0"),
  ("glue_mnli_v002", "glue/mnli:2.0.0"),
  ("glue_mnli_matched_v002", "glue/mnli_matched:2.0.0"),
  ("glue_mnli_mismatched_v002", "glue/mnli_mismatched:2.0.0"),
  ("glue_qnli_v002", "glue/qnli:2.0.0"),
  ("glue_rte_v002", "glue/rte:2.0.0"),
  ("glue_wnli_v002", "glue/wnli:2.0.0"),
  ("glue_wnli_v002_simple_eval", "glue/wnli:2.0.0"),
  ("glue_ax_v002", "glue/ax:2.0.0"),
  ("super_glue_boolq_v102", "super_glue/boolq:1.0.2"),
  ("super_glue_cb_v102", "super_glue/cb:1.0.2"),
  ("super_glue_copa_v102", "super_glue/copa:1.0.2"),
  ("super_glue_multirc_v102", "super_glue/multirc:1.0.2"),
  ("super_glue_record_v102", "super_glue/record:1.0.2"),
  ("super_glue_rte_v102", "super_glue/rte:1.0.2"),
  ("super_glue_axb_v102", "super_glue/axb:1.0.2"),
  ("super_glue_axg_v102", "super_glue/axg:1.0.2"),
  ("super_glue_wic_v102", "super_glue/wic:1.0.2"),
  ("super_glue_wsc_v102", "super_glue/wsc.fixed:1.0.2"),
  ("super_glue_wsc_v102_simple_train", "super_glue/wsc.fixed:1.0.2"),
  ("super_glue_wsc_v102_simple_eval", "super_glue/wsc.fixed:1.0.2"),
  ("dpr_v001_simple", "definite_pronoun_resolution:1.1.0"),
  # Here the answers are what differs from the tasks without sentinels.
  ("super_glue_boolq_v102_1_sentinel", "super_glue/boolq:1.0.2"),
  ("super_glue_cb_v102_1_sentinel", "super_glue/cb:1.0.2"),
  ("super_glue_copa_v102_1_sentinel", "super_glue/copa:1.0.2"),
  ("super_glue_multirc_v102_1_sentinel", "super_glue/multirc:1.0.2"),
  ("super_glue_record_v102_1_sentinel", "super_glue/record:1.0.2"),
  ("super_glue_rte_v102_1_sentinel", "super_glue/rte:1.0.2"),
  ("super_glue_wic_v102_1_sentinel", "super_glue/wic:1.0.2"),
  ("super_glue_axb_v102_1_sentinel", "super_glue/axb:1.0.2"),
  ("super_glue_axg_v102_1_sentinel", "super_glue/axg:1.0.2"),
  (
    "super_glue_wsc_v102_simple_1_sentinel_train",
    "super_glue/wsc.fixed:1.0.2",
  ),
  (
    "super_glue_wsc_v102_simple_1_sentinel_eval",
    "super_glue/wsc.fixed:1.0.2",
  ),
  ("dpr_v001_simple_1_sentinel", "definite_pronoun_resolution:1.1.0"),
]
# Task, data set, split: its rows with characters and numbers changed.
DAMAGED = [
  ("glue_wnli_v002_simple_eval", "glue/wnli:2.0.0", "train"),
  ("super_glue_record_v102", "super_glue/record:1.0.2", "train"),
  ("super_glue_wsc_v102", "super_glue/wsc:1.0.2", "train"),
  (
    "super_glue_wsc_v102_simple_eval",
    "super_glue/wsc.fixed:1.0.2",
    "validation",
  ),
]


@pytest.mark.parametrize("task, dataset, splits", ON_DISK)
def test_whole_splits(task, dataset, splits, t5_package, shared_data):
  for split in splits:
    request = {"task": task, "dataset": dataset, "split": split}
    count, _ = row_by_row.compare(request, t5_package, shared_data)
    assert count


@pytest.mark.parametrize("task, dataset", IN_MEMORY)
def test_odd_rows(task, dataset, t5_package, shared_data):
  rows = odd_rows.odd_rows(dataset)
  request = {"task": task, "dataset": dataset, "rows": rows}
  row_by_row.compare(request, t5_package, shared_data)


@pytest.mark.parametrize("task, dataset, split", DAMAGED)
def test_damaged_rows(task, dataset, split, t5_package, shared_data):
  data_dir = str(shared_data / "tfds")
  rows = text_to_text_rows.raw_rows(dataset, split, data_dir)
  request = {"task": task, "dataset": dataset}
  request["rows"] = rows[:700] + odd_rows.damaged(rows, 1_000)
  count, failed = row_by_row.compare(request, t5_package, shared_data)
  assert count - failed > 200


def test_a_difference_is_shown(t5_package, shared_data, monkeypatch):
  request = {"dataset": "super_glue/cb:1.0.2", "split": "validation"}
  request["task"] = "super_glue_cb_v102"
  join = labelled_text.join_fields
  monkeypatch.setattr(
    labelled_text, "join_fields", lambda benchmark, *rest: join("a cb", *rest)
  )
  with pytest.raises(AssertionError, match="\nours: .*a cb hypothesis"):
    row_by_row.compare(request, t5_package, shared_data)
  monkeypatch.undo()
  assert row_by_row.compare(request, t5_package, shared_data) == (56, 0)


def test_a_wrong_score_is_shown(t5_package, shared_data, monkeypatch):
  request = {"dataset": "super_glue/wsc.fixed:1.0.2", "split": "validation"}
  request["task"] = "super_glue_wsc_v102_simple_eval"
  monkeypatch.setattr(post_processors, "_DETERMINERS", frozenset(["the"]))
  with pytest.raises(AssertionError, match="\nours: "):
    row_by_row.compare(request, t5_package, shared_data)
