"""Submission files as the servers read them."""

import json

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import submission


@pytest.fixture
def write(tmp_path):
  def call(task, examples, predictions):
    written = submission.write(tmp_path, task, examples, predictions)
    assert written.path.parent == tmp_path
    return written, written.path.read_text(encoding="utf-8")

  return call


def indexed(*places):
  return [{"idx": place} for place in places]


@pytest.mark.parametrize(
  "task, file, classes, labels",
  [
    ("glue_cola_v002", "CoLA.tsv", [1, 0], "1 0"),
    ("glue_sst2_v002", "SST-2.tsv", [1, 0], "1 0"),
    ("glue_mrpc_v002", "MRPC.tsv", [1, 0], "1 0"),
    ("glue_qqp_v002", "QQP.tsv", [1, 0], "1 0"),
    ("glue_wnli_v002_simple_eval", "WNLI.tsv", [1, 0], "1 0"),
    (
      "glue_mnli_matched_v002",
      "MNLI-m.tsv",
      [0, 1, 2],
      "entailment neutral contradiction",
    ),
    ("glue_mnli_mismatched_v002", "MNLI-mm.tsv", [2], "contradiction"),
    ("glue_ax_v002", "AX.tsv", [1], "neutral"),
    ("glue_qnli_v002", "QNLI.tsv", [0, 1], "entailment not_entailment"),
    ("glue_rte_v002", "RTE.tsv", [1, 0], "not_entailment entailment"),
    (
      "glue_stsb_v002",
      "STS-B.tsv",
      [3.8, 7.0, 0.4, -0.1, -1.0],
      "3.800 5.000 0.400 0.000 0.000",
    ),
  ],
)
def test_glue(write, task, file, classes, labels):
  written, text = write(task, indexed(*range(len(classes))), classes)
  assert written.path.name == file and written.rows == len(classes)
  rows = [f"{i}\t{label}" for i, label in enumerate(labels.split())]
  assert text == "\n".join(["index\tprediction", *rows]) + "\n"
  assert written.invalid == (1 if -1.0 in classes else 0)


@pytest.mark.parametrize(
  "task, file, classes, labels",
  [
    ("super_glue_boolq_v102", "BoolQ.jsonl", [0, 1], ["false", "true"]),
    (
      "super_glue_cb_v102",
      "CB.jsonl",
      [0, 1, 2],
      ["entailment", "contradiction", "neutral"],
    ),
    ("super_glue_copa_v102", "COPA.jsonl", [1, 0], [1, 0]),
    ("super_glue_rte_v102", "RTE.jsonl", [1], ["not_entailment"]),
    ("super_glue_wic_v102", "WiC.jsonl", [1, 0], ["true", "false"]),
    ("super_glue_wic_v102_1_sentinel", "WiC.jsonl", [1], ["true"]),
    (
      "super_glue_wsc_v102_simple_eval",
      "WSC.jsonl",
      [1, 0],
      ["True", "False"],
    ),
    ("super_glue_axb_v102", "AX-b.jsonl", [0], ["entailment"]),
    ("super_glue_axg_v102", "AX-g.jsonl", [1], ["not_entailment"]),
  ],
)
def test_super_glue(write, task, file, classes, labels):
  written, text = write(task, indexed(*range(len(classes))), classes)
  assert written.path.name == file and written.invalid == 0
  assert [json.loads(line) for line in text.splitlines()] == [
    {"idx": i, "label": label} for i, label in enumerate(labels)
  ]


def test_rows_are_sorted_and_invalid_ones_kept_and_counted(write):
  written, text = write("glue_rte_v002", indexed(7, 2, 5), [1, -1, 2])
  assert text == (
    "index\tprediction\n2\tentailment\n5\tentailment\n7\tnot_entailment\n"
  )
  assert (written.rows, written.invalid) == (3, 2)


def test_multirc_is_nested(write):
  rows = [(1, 3, 9, 1), (0, 1, 4, 0), (0, 0, 1, 1), (0, 0, 0, -1)]
  examples = [
    {"idx/paragraph": p, "idx/question": q, "idx/answer": a}
    for p, q, a, _ in rows
  ]
  answers = [{"value": value} for *_, value in rows]
  written, text = write("super_glue_multirc_v102", examples, answers)
  assert (written.rows, written.invalid) == (4, 1)
  assert [json.loads(line) for line in text.splitlines()] == [
    {
      "idx": 0,
      "passage": {
        "questions": [
          {
            "idx": 0,
            "answers": [{"idx": 0, "label": 0}, {"idx": 1, "label": 1}],
          },
          {"idx": 1, "answers": [{"idx": 4, "label": 0}]},
        ]
      },
    },
    {
      "idx": 1,
      "passage": {
        "questions": [{"idx": 3, "answers": [{"idx": 9, "label": 1}]}]
      },
    },
  ]


def test_record_is_text_once_per_query(write):
  examples = [{"idx/passage": 0, "idx/query": q} for q in (1, 0, 1)]
  answers = [{"value": "Ünï"}, {"value": "b"}, {"value": "Ünï"}]
  written, text = write("super_glue_record_v102", examples, answers)
  assert text == ('{"idx": 0, "label": "b"}\n{"idx": 1, "label": "Ünï"}\n')
  assert written.rows == 2


def test_two_rows_of_one_index_are_refused(write):
  with pytest.raises(
    UserError,
    match="Two rows of 'glue_rte_v002' have the index 3, so RTE.tsv cannot be",
  ):
    write("glue_rte_v002", indexed(3, 4, 3), [0, 0, 0])


def test_a_row_without_index_is_refused(write):
  with pytest.raises(
    UserError, match=r"A row of 'glue_rte_v002' has no index \(\['text'\]\)"
  ):
    write("glue_rte_v002", [{"text": "a"}], [0])


def test_what_is_still_missing():
  missing = submission.missing(["CoLA.tsv", "WNLI.tsv"])
  assert list(missing) == ["GLUE"]
  assert missing["GLUE"] == [
    *("SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv"),
    *("MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "AX.tsv"),
  ]
