"""On smaller suites too, rows differ in what their table is about alone."""

import pytest

from tests.studies import shipped
from transformer_zoo import config


def settings():
  lengths = config.value("TASK_FEATURE_LENGTHS")
  rows = config.setting("batch_size")
  return {
    "dropout": config.value("DROPOUT_RATE"),
    "tokens": rows * lengths["inputs"],
    "steps": config.setting("train_steps"),
  }


def found(study, suite):
  """Yields (row, phase, settings) of the training runs of a seed."""
  for run in shipped.runs(study, suite):
    if run.command == "train":
      yield run.row, run.phase, shipped.loaded(run, settings)


@pytest.mark.parametrize(
  "suite",
  [
    "miniature",
    *(
      pytest.param(s, marks=pytest.mark.slow) for s in ("small", "small_night")
    ),
  ],
)
@pytest.mark.parametrize("study", ["table2", "table11", "table12", "table15"])
def test_all_runs_have_one_dropout(study, suite):
  assert len({run["dropout"] for *_, run in found(study, suite)}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["small", "small_night"])
def test_steps_of_mixed_training_have_the_tokens_of_pre_training(suite):
  tokens = {
    run["tokens"]
    for _, phase, run in found("table11", suite)
    if phase in ("pretrain", "multitask")
  }
  assert len(tokens) == 1


@pytest.mark.parametrize("suite", ["miniature", "small", "small_night"])
def test_a_trillion_tokens_are_as_many_in_both_rows(suite):
  tokens = {
    row: run["steps"] * run["tokens"]
    for row, phase, run in found("table15", suite)
    if phase in ("pretrain", "released")
  }
  assert tokens["baseline_1t"] == 32 * tokens["baseline"]
  assert tokens["t5_base"] == pytest.approx(tokens["baseline_1t"], rel=0.01)
