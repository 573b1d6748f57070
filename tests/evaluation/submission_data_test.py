"""Submissions of real test splits: every row is there, by its own index."""

import json

import pytest

from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.evaluation import submission
from transformer_zoo.evaluation import task_scores

pytest.importorskip("seqio")
LENGTHS = {"inputs": 512, "targets": 16}


@pytest.mark.parametrize(
  "task, rows",
  [
    ("glue_cola_v002", 1063),
    ("super_glue_wsc_v102_simple_eval", 146),
    *(
      pytest.param(*each, marks=pytest.mark.slow)
      for each in (
        ("glue_stsb_v002", 1379),
        ("glue_wnli_v002_simple_eval", 146),
        ("super_glue_cb_v102", 250),
        ("super_glue_copa_v102", 500),
        ("super_glue_axg_v102", 356),
      )
    ),
  ],
)
def test_every_row_of_a_test_split(shared_data, tmp_path, task, rows):
  from transformer_zoo.data.prepare import preparation

  mixture = preparation.prepare(
    task,
    prepared_dir=tmp_path,
    data_dir=str(shared_data),
    splits=["test"],
  )
  prepared = mixture.tasks[0]
  examples = [
    text
    for batch in EvaluationSplit(prepared, "test", LENGTHS, 64)
    for text in batch.texts
  ]
  found = task_scores.post_process(
    prepared.scoring, examples, ["nonsense"] * len(examples)
  )
  written = submission.write(
    tmp_path / "files", task, examples, found.predictions
  )
  lines = written.path.read_text().splitlines()
  if written.path.suffix == ".tsv":
    indices = [int(line.split("\t")[0]) for line in lines[1:]]
  else:
    indices = [json.loads(line)["idx"] for line in lines]
  assert indices == list(range(rows)) and written.rows == rows
  # Any text refers to something in the Winograd tasks.
  assert written.invalid == (0 if "simple_eval" in task else rows)
