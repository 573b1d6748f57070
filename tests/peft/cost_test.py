"""A frozen parameter costs no gradient, no moments and no backward product."""

import functools

import gin
import jax
import jax.numpy as jnp
import pytest

from tests import tiny_t5
from tests.peft import methods_test as methods
from transformer_zoo import config
from transformer_zoo import parameter_names
from transformer_zoo.checkpoints import bases
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.peft import substitution
from transformer_zoo.peft.trainable import ALL
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor

WIDE = {
  **{"EMBED_DIM": 64, "MLP_DIM": 128, "NUM_HEADS": 4, "HEAD_DIM": 16},
  **{"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1},
}


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def flops_of_step(model, trainable):
  """FLOPs of the step as it is lowered, and the shapes of its state.

  XLA counts them before it compiles, and so what nothing uses too.
  """
  optimizer = adafactor(schedules.constant(1e-3))
  state = jax.eval_shape(
    lambda: state_lib.initial_state(
      model, optimizer, jax.random.key(0), trainable
    )
  )
  batch = {
    name: jax.ShapeDtypeStruct(array.shape, jnp.int32)
    for name, array in tiny_t5.random_batch(
      rows=8, inputs=32, targets=16
    ).items()
  }
  step = jax.jit(
    functools.partial(
      step_lib.train_step,
      objective=functools.partial(SequenceToSequence(), model),
      optimizer=optimizer,
      trainable=trainable,
    )
  )
  key = jax.eval_shape(lambda: jax.random.key(0))
  return step.lower(state, batch, key).cost_analysis()["flops"], state


@pytest.mark.slow
@pytest.mark.parametrize(
  ("kind", "scan", "shares"),
  [
    ("gpt_2", True, {"lora": 0.75}),
    ("t5_1_1", False, {"ia3": 0.72, "prompt": 0.75}),
  ],
)
def test_backward_products_of_frozen_kernels_are_not_computed(
  kind, scan, shares
):
  """Of three products of a layer one is left out, that of its gradient."""
  build = functools.partial(methods.build, kind=kind, SCAN_LAYERS=scan, **WIDE)
  model, _ = build(next(iter(shares)))
  of_all, _ = flops_of_step(model, ALL)
  for method, share in shares.items():
    model, trainable = build(method)
    flops, state = flops_of_step(model, trainable)
    assert flops < share * of_all, (method, flops / of_all)
    trained = trainable.select(state.params)
    moments = state.opt_state.moments
    of_moments = {name.rpartition("/")[0] for name in methods.names(moments)}
    assert of_moments == set(methods.names(trained))
    numbers = sum(x.size for x in jax.tree.leaves(moments))
    assert numbers <= 2 * sum(x.size for x in jax.tree.leaves(trained))


def test_what_tfew_saves_of_t0_11b():
  """4.3 MB of numbers, of 11 billion (Liu et al. 2022, section 3.3: 4.2)."""
  config.load(
    [
      "architectures/t5_1_1.gin",
      "sizes/t5_1_1_xxl.gin",
      "runs/finetune.gin",
      "peft/ia3.gin",
    ],
    ["MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='task'", "SCAN_LAYERS=True"],
  )
  run = gin.get_bindings("train")
  params = state_lib.abstract_params(run["model"])
  base = substitution.original(run["model"])
  read = [
    layer
    for name, leaf in methods.flat_shapes(base).items()
    for layer in parameter_names.names_in(name, leaf.shape)
  ]
  saved = bases.Base("base", "", {name: name for name in read}).own(
    run["trainable"], params
  )
  assert sum(leaf.size for leaf in jax.tree.leaves(params)) > 11e9
  numbers = sum(leaf.size for leaf in jax.tree.leaves(saved))
  assert numbers == 24 * (4 * 4096 + 2 * 10240 + 2 * 4096)
  assert 4 * numbers < 5e6
