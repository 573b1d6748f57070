"""On smaller suites too, rows differ in what their table is about alone."""

import functools

import gin
import pytest

from transformer_zoo import config
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design import study as study_lib


@functools.cache
def settings_of(changes):
  bindings = planned_run.bindings("train", 0, "", ["start"])
  try:
    config.load((), bindings, changes=changes)
    lengths = config.value("TASK_FEATURE_LENGTHS")
    rows = config.setting("batch_size")
    return {
      "dropout": config.value("DROPOUT_RATE"),
      "tokens": rows * lengths["inputs"],
      "steps": config.setting("train_steps"),
    }
  finally:
    gin.clear_config()


def found(study, suite):
  """Yields (row, phase, settings) of the training runs of a seed."""
  loaded = study_lib.with_seeds(loading.load_study(study), (0,))
  for run in plan.plan(loaded, loading.load_suite(suite), prepare=False):
    if run.command == "train":
      yield run.row, run.phase, settings_of(run.changes)


@pytest.mark.parametrize("suite", ["miniature", "small", "small_night"])
@pytest.mark.parametrize("study", ["table2", "table11", "table12", "table15"])
def test_all_runs_have_one_dropout(study, suite):
  assert len({run["dropout"] for *_, run in found(study, suite)}) == 1


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
