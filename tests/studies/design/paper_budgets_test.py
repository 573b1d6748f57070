"""The suite `paper` beside the budgets that Raffel et al. 2020 print."""

import csv
import functools
import pathlib

import gin
import pytest

from tests.studies import shipped
from transformer_zoo import config
from transformer_zoo.runs.settings import Run
from transformer_zoo.studies import published
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.execution import run_costs

TABLE_2 = pathlib.Path(published.__path__[0]) / "t5/table02_architectures.csv"
# Its columns "params" and "cost": in stacks of 12 layers, and in an encoder and
# a decoder of as many.
STACKS, COSTS = {"P": 1, "2P": 2}, {"M": 1.0, "M/2": 0.5}
PRE_TRAINING, FINE_TUNING = 2**35, 2**34  # tokens: section 3.1.2
SIZES = {"small": 60e6, "large": 770e6, "eleven_b": 11e9}  # section 3.7


@functools.cache
def runs_of(study, suite="paper"):
  """The first seed's runs, by row and phase; of groups, the first."""
  runs = {}
  for run in shipped.runs(study, suite):
    runs.setdefault((run.row, run.phase), run)
  return runs


@functools.cache
def costs(changes):
  bindings = planned_run.bindings("train", 0, "", ["start"])
  try:
    # Layers that are not scanned take longer to trace and cost the same.
    config.load((), [*bindings, "SCAN_LAYERS=True"], changes=changes)
    return run_costs.of_settings(Run.of_loaded(), with_executed=False)
  finally:
    gin.clear_config()


def of(study, row, phase):
  return costs(runs_of(study)[row, phase].changes)


@pytest.mark.slow
def test_parameters_and_costs_are_those_of_table_2():
  rows = {row.published: row.name for row in loading.load_study("table2").rows}
  stack = of("table2", "lm", "pretrain").parameters
  whole = of("table2", "encoder_decoder", "pretrain").flops
  with TABLE_2.open(encoding="utf-8") as file:
    printed = [row for row in csv.DictReader(file) if "Denoising" in row["row"]]
  assert len(printed) == 5
  for line in printed:
    found = of("table2", rows[line["row"]], "pretrain")
    # What is shared or halved keeps its embeddings and its attention to the
    # encoder; one sequence predicts at its inputs too.
    parameters = STACKS[line["params"]] * stack
    assert found.parameters == pytest.approx(parameters, rel=0.26), line
    cost = COSTS[line["cost"]] * whole
    assert found.flops == pytest.approx(cost, rel=0.07), line


@pytest.mark.slow
@pytest.mark.parametrize(
  "suite", ["miniature", "first_look", "small", "small_night", "paper"]
)
def test_equal_flops_are_those_of_the_baseline(suite):
  """Or rows whose steps follow from them would have more or fewer."""
  run = runs_of("one_or_two_stacks", suite)["t5", "pretrain"]
  values = loading.load_suite(suite).values
  assert costs(run.changes).flops == values["pretrain_flops"]


@pytest.mark.slow
@pytest.mark.parametrize("row", ["encoder_decoder", "lm", "prefix_lm"])
def test_what_is_fine_tuned_reads_its_inputs(row):
  """A language model that read targets alone would cost a tenth."""
  whole = of("table2", "encoder_decoder", "finetune")
  found = of("table2", row, "finetune")
  assert found.flops == pytest.approx(whole.flops, rel=0.12)
  assert found.input_tokens == FINE_TUNING
  assert found.steps == 2**18


@pytest.mark.slow
def test_the_baseline_sees_the_published_tokens():
  found = of("table2", "encoder_decoder", "pretrain")
  assert (found.steps, found.input_tokens) == (2**19, PRE_TRAINING)


@pytest.mark.slow
@pytest.mark.parametrize("row", list(SIZES))
def test_released_models_have_the_published_size_and_tokens(row):
  found = of("table14", row, "released")
  assert found.parameters == pytest.approx(SIZES[row], rel=0.045)
  assert (found.steps, found.input_tokens) == (10**6, 10**6 * 2**11 * 512)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["batch_4x", "size_2x_steps_2x", "size_4x"])
def test_table_13_spends_four_times_the_compute(row):
  baseline = of("table13", "baseline", "pretrain")
  found = of("table13", row, "pretrain")
  # The published sizes are roughly 2 and 4 times the baseline's.
  assert found.flops / baseline.flops == pytest.approx(4, rel=0.25)
