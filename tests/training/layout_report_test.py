"""The report of a run's mesh and memory, and its time."""

import functools

import jax
import jax.numpy as jnp
import optax
import pytest

from tests import rule_sets
from tests import tiny_models
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import layout_report
from transformer_zoo.training.compiled_step import CompiledStep
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding.partitioning import Partitioning


@functools.cache
def wide_model():
  """A table of a megabyte and more for each of its axes."""
  sizes = {"EMBED_DIM": 512, "NUM_HEADS": 8, "VOCAB_SIZE": 1024, "MLP_DIM": 64}
  model, _ = tiny_models.build("gpt_2", NUM_DECODER_LAYERS=1, **sizes)
  return model


def make_program(partitioning, optimizer=adafactor):
  rate = schedules.constant(0.1)
  return TrainProgram(
    wide_model(),
    SequenceToSequence(),
    optimizer(rate),
    rate,
    partitioning,
    partitioning.mesh(),
  )


def test_mesh_of_two_slices():
  program = make_program(rule_sets.load("two_dimensional", NUM_SLICES=2))
  lines = list(layout_report.layout(program))
  assert lines[:4] == [
    "mesh 2 data x 2 fsdp x 2 model: 8 x cpu, processes: 1, slices: 2",
    "  data: devices 0 4, across slices",
    "  fsdp: devices 0 2, inside a process",
    "  model: devices 0 1, inside a process",
  ]
  assert lines[4] == ("  process 0: data 0-1, fsdp 0-1, model 0-1, slice 0-1")
  # The table of positions has but one axis to share out.
  assert lines[5].startswith(
    "on each device: parameters 1.8 MB of 5.0 MB, optimizer state 0.2 MB of 0.8"
  )
  assert lines[6:] == ["no parameter above 1 MB is whole on every device"]


def test_what_is_whole_on_every_device_is_named():
  # Of the tables, that of positions has `embed` alone.
  program = make_program(Partitioning(num_partitions=8))
  lines = list(layout_report.layout(program))
  assert lines[-1] == (
    "whole on every device: decoder/position_embedder/pos_embedding "
    "[1024, 512], 2.1 MB"
  )


def test_data_parallel_says_that_all_is_whole():
  lines = list(layout_report.layout(make_program(Partitioning())))
  assert lines[-1] == (
    "every device has all parameters: all axes but data are of size 1"
  )


@pytest.mark.parametrize("begun", [False, True])
def test_the_step_is_compiled_once_for_each_shape_and_told_before_it_runs(
  begun,
):
  program = make_program(Partitioning(), lambda rate: optax.sgd(rate))
  told, traced = [], []

  def step(state, batch, key, history):
    traced.append(batch["ids"].shape)
    ones = jnp.sum(batch["ids"]) + (history or 0)
    return state.replace(step=state.step + ones), {}

  program.__dict__["step"] = jax.jit(step, donate_argnums=0)
  run = CompiledStep(program, jax.random.key(0), told.append)
  state = jax.tree.map(
    lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding),
    program.abstract_state,
  )
  if begun:
    run.begin({"ids": jax.ShapeDtypeStruct((2, 3), jnp.int32)})
    assert traced == [(2, 3)]
    assert told[0].startswith("mesh 8 data")
  for rows in (2, 2, 4, 2):
    state, _ = run(state, {"ids": jnp.ones((rows, 3), jnp.int32)})
    if len(traced) == 1:
      assert told[-1].startswith("on each device in a step: temporaries ")
      assert told[0].startswith("mesh 8 data")
  assert int(state.step) == 30
  assert traced == [(2, 3), (4, 3)]
  assert len([line for line in told if line.startswith("mesh")]) == 1
  assert len([line for line in told if "temporaries" in line]) == 2
  assert program.step._cache_size() == 0
