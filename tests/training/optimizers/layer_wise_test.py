"""Rates by depth: ELECTRA's, scanned or looped, and what is refused."""

import functools

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError
from transformer_zoo.objectives.terms import Term
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.training.optimizers import layer_wise
from transformer_zoo.training.optimizers.adam import adamw
from transformer_zoo.training.state import TrainState
from transformer_zoo.training.step import train_step

DECAY = 0.8
# The factors of a model of 3 layers by `_get_layer_lrs` of ELECTRA's code.
EXPECTED = {
  "token_embedder/embedding": DECAY**5,
  "token_type_embedder/embedding": DECAY**5,
  "encoder/position_embedder/pos_embedding": DECAY**5,
  "encoder/input_norm/scale": DECAY**5,
  "encoder/input_projection/dense/kernel": DECAY**5,
  "encoder/layers_0/attention/query/kernel": DECAY**4,
  "encoder/layers_1/mlp/wi/bias": DECAY**3,
  "encoder/layers_2/post_mlp_layer_norm/scale": DECAY**2,
  "heads/classes/pooler/dense/kernel": 1.0,
  "heads/classes/out/bias": 1.0,
}


@functools.cache
def parameters(**macros):
  model, _ = tiny_models.build(
    "electra",
    "../heads/classes.gin",
    bindings=("INPUT_PROJECTION=@InputProjection()", "EMBEDDING_DIM=10"),
    NUM_ENCODER_LAYERS=3,
    **macros,
  )
  return tiny_models.random_parameters(model)


def factors(params) -> dict[str, float]:
  ones = jax.tree.map(np.ones_like, params)
  scaled = programs.run(layer_wise.scaled_by_depth, ones, DECAY, params)
  found = {}
  for path, leaf in jax.tree_util.tree_flatten_with_path(scaled)[0]:
    name = "/".join(key.key for key in path)
    names = parameter_names.names_in(name, leaf.shape)
    leaf = np.asarray(leaf)
    parts = leaf if len(names) > 1 else [leaf]
    for each, part in zip(names, parts, strict=True):
      assert np.ptp(part) == 0
      found[each] = float(part.flat[0])
  return found


@pytest.mark.parametrize("scan", [False, True])
def test_factors_are_those_of_electra(scan):
  found = factors(parameters(SCAN_LAYERS=scan))
  for name, factor in EXPECTED.items():
    assert found[name] == pytest.approx(factor), name


@pytest.mark.parametrize(
  ("architecture", "part", "binding", "name", "factor"),
  [
    (
      "deberta_v2",
      "../heads/classes.gin",
      "deberta_transformer.convolution = @Convolution()",
      "encoder/convolution/kernel",
      DECAY**3,
    ),
    (
      "albert",
      "sharing/attention.gin",
      "Stack.scan = False",
      "encoder/attention/query/kernel",
      DECAY**2,
    ),
  ],
)
def test_what_lies_beside_the_layers(architecture, part, binding, name, factor):
  model, _ = tiny_models.build(architecture, part, bindings=(binding,))
  found = factors(tiny_models.random_parameters(model))
  assert found[name] == pytest.approx(factor)


def few(params):
  """Those of one layer's network and of what lies around the layers."""
  flat = traverse_util.flatten_dict(params, sep="/")
  kept = ("token_embedder", "layers", "heads/classes/out")
  return traverse_util.unflatten_dict(
    {
      name: leaf
      for name, leaf in flat.items()
      if any(part in name for part in kept)
      and ("layer" not in name or "mlp/wi" in name)
    },
    sep="/",
  )


def test_a_step_is_that_of_adamw_times_the_factors():
  params = few(parameters())
  gradients = jax.tree.map(np.sin, params)
  schedule = lambda step: 1e-2  # noqa: E731
  plain = adamw(schedule, weight_decay=0.1)
  found = layer_wise.layer_wise(
    schedule,
    optimizer=lambda rate: adamw(rate, weight_decay=0.1),
    decay=DECAY,
  )
  state, of_plain = (
    jax.eval_shape(each.init, params) for each in (found, plain)
  )
  assert jax.tree.structure(state) == jax.tree.structure(of_plain)

  @jax.jit
  def updated(params):
    updates, _ = found.update(gradients, found.init(params), params)
    expected, _ = plain.update(gradients, plain.init(params), params)
    expected = layer_wise.scaled_by_depth(expected, DECAY, params)
    difference = jax.tree.map(lambda a, b: a - b, updates, expected)
    return optax.tree.norm(difference), optax.tree.norm(expected)

  difference, norm = jax.device_get(updated(params))
  assert difference < 1e-6 * norm


@pytest.mark.parametrize("scan", [False, True])
def test_layers_above_the_last_that_is_trained_count(scan):
  params = few(parameters(SCAN_LAYERS=scan))
  trainable = Trainable(("encoder/layers_0/.*",))
  optimizer = layer_wise.layer_wise(1.0, optimizer=optax.sgd, decay=DECAY)

  def sum_of_all(params, batch, key):
    del batch, key
    total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(params))
    return {"parameters": Term(total, jnp.float32(1), {})}

  @jax.jit
  def step(params):
    return train_step(
      TrainState(
        jnp.int32(0), params, optimizer.init(trainable.select(params))
      ),
      {},
      jax.random.key(0),
      objective=sum_of_all,
      optimizer=optimizer,
      trainable=trainable,
    )

  after, _ = jax.device_get(step(params))
  stack = [side["encoder"] for side in (params, after.params)]
  before, after = (
    side["layers"]["mlp"]["wi"]["kernel"][0]
    if scan
    else side["layers_0"]["mlp"]["wi"]["kernel"]
    for side in stack
  )
  np.testing.assert_allclose(before - after, DECAY**4, rtol=1e-5)


def test_decays_that_are_refused():
  with pytest.raises(UserError) as caught:
    layer_wise.layer_wise(None, optimizer=adamw, decay=1.5)
  assert str(caught.value) == (
    "layer_wise.decay is 1.5; it has to be above 0 and at most 1, which is the "
    "same rate for all"
  )
