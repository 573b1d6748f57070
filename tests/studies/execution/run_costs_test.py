"""Costs of runs, from their configurations alone."""

import functools

import gin
import jax
import pytest

from transformer_zoo import config
from transformer_zoo.runs.settings import Run
from transformer_zoo.studies.execution import run_costs
from transformer_zoo.training import loop

FILES = ("architectures/t5_1_0.gin", "sizes/tiny.gin", "runs/finetune.gin")
BINDINGS = (
  "MODEL_DIR='nowhere'",
  "MIXTURE_OR_TASK_NAME='nothing_is_read'",
  "VOCAB_SIZE=64",
  "NUM_ENCODER_LAYERS=1",
  "NUM_DECODER_LAYERS=1",
  "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8}",
  "TRAIN_STEPS=10",
  "BATCH_SIZE=4",
)


@pytest.fixture(scope="module")
def costs_of():
  @functools.cache
  def of(*bindings):
    config.load(FILES, (*BINDINGS, *bindings))
    return run_costs.of_settings(Run.of_loaded())

  yield of
  gin.clear_config()


@pytest.mark.slow
def test_steps_rows_and_lengths_multiply(costs_of):
  short = costs_of()
  assert (short.input_tokens, short.target_tokens) == (10 * 4 * 16, 10 * 4 * 8)
  assert short.flops == short.executed.matmul_flops > 0
  twice = costs_of("TRAIN_STEPS=20")
  for name in ("input_tokens", "target_tokens", "flops"):
    assert getattr(twice, name) == 2 * getattr(short, name)
  assert twice.executed == short.executed * 2
  assert twice.parameters == twice.trained_parameters == short.parameters


@pytest.mark.slow
def test_warm_ups_count_stage_by_stage(costs_of):
  whole = costs_of()
  warmed = costs_of(
    "train.batch_size_warmup={5: 2}",
    "train.length_warmup={5: {'inputs': 8, 'targets': 8}}",
  )
  assert warmed.input_tokens == 5 * 2 * 8 + 5 * 4 * 16
  assert warmed.target_tokens == 5 * 2 * 8 + 5 * 4 * 8
  assert whole.flops / 2 < warmed.flops < whole.flops * 3 / 4


@pytest.mark.slow
def test_a_mesh_that_is_not_here_changes_nothing(costs_of):
  count = len(jax.devices())
  elsewhere = costs_of(f"Partitioning.num_partitions={2 * count}")
  assert elsewhere == costs_of()


@pytest.mark.slow
def test_frozen_parameters_cost_less(costs_of):
  whole = costs_of()
  frozen = costs_of(
    "train.trainable=@Trainable()", "Trainable.parameters=['.*norm.*']"
  )
  assert 0 < frozen.trained_parameters < frozen.parameters == whole.parameters
  assert frozen.executed.matmul_flops < whole.executed.matmul_flops


@pytest.mark.parametrize(
  ("periods", "expected"),
  [
    (loop.Periods(checkpoint=2, evaluate=4), (5, 3)),
    (loop.Periods(checkpoint=5, evaluate=5), (2, 2)),
    (loop.Periods(checkpoint=100, evaluate=0), (1, 1)),
  ],
)
def test_what_comes_last_is_saved_and_evaluated(periods, expected):
  counted = run_costs.times(10, periods)
  assert (counted["saves"], counted["evaluations"]) == expected
