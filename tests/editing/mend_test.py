"""Editors begin with the gradient, for every shape, and learn."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.editing import interventions
from transformer_zoo.editing import mend
from transformer_zoo.errors import UserError


def setting(architecture, seed=0):
  """A looped model, its parameters, and a batch with targets."""
  model, converter = tiny_models.build(architecture)
  model = interventions.looped(model)
  params = tiny_models.random_parameters(model)
  random = np.random.RandomState(seed)
  tokens = random.randint(3, 48, (4, 6)).astype(np.int32)
  weights = np.zeros((4, 6), np.float32)
  weights[:, 3:5] = 1
  side = model.offers.sides[-1]
  batch = {
    f"{side}_input_tokens": tokens,
    f"{side}_target_tokens": random.randint(3, 48, (4, 6)).astype(np.int32),
    f"{side}_loss_weights": weights,
  }
  if "encoder" in model.offers.sides and side == "decoder":
    batch["encoder_input_tokens"] = tokens[:, ::-1].copy()
  if side == "encoder":
    batch["encoder_token_types"] = np.zeros_like(tokens)
  return model, params, batch


def whitening(editors, params):
  """Statistics that leave everything as it is."""
  return {
    "x".join(map(str, shape)): (jnp.zeros(sum(shape)), jnp.ones(sum(shape)))
    for shape in editors._shapes(params)
  }


@pytest.mark.slow
@pytest.mark.parametrize(
  "architecture",
  # With an encoder and a decoder; the others have one of the two.
  [
    "t5_1_0",
    *(pytest.param(a, marks=pytest.mark.slow) for a in ("gpt_2", "bert")),
  ],
)
def test_the_identity_makes_the_step_of_gradient_descent(architecture):
  model, params, batch = setting(architecture)
  paths = mend.last_projections(model)
  assert len(paths) == (8 if architecture == "t5_1_0" else 4)
  editors = mend.Mend(model, paths, rank=4)
  editor = editors.init(jax.random.key(0), params, rate=0.5)
  changed = jax.jit(editors.apply)(
    editor, whitening(editors, params), params, batch
  )

  @jax.jit
  @jax.grad
  def gradient(params):
    logits, _ = interventions.apply(model, params, batch)
    return mend.nll(logits, batch).sum()

  expected = jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient(params))
  for path in paths:
    side, layer, _, name = path.split("/")
    found = changed[side][layer]["mlp"][name]["kernel"]
    wanted = expected[side][layer]["mlp"][name]["kernel"]
    np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.slow
def test_editors_learn_edits_that_stay_in_their_place():
  model, params, _ = setting("gpt_2")
  editors = mend.Mend(model, mend.last_projections(model), rank=8)
  batches = [setting("gpt_2", seed)[2] for seed in range(8)]
  statistics = editors.statistics(params, batches)
  examples = itertools.cycle(
    (batch, batch, other)
    for batch, other in zip(batches, batches[1:] + batches[:1], strict=True)
  )
  _, history = editors.train(
    jax.random.key(0),
    params,
    examples,
    steps=96,
    statistics=statistics,
    learning_rate=3e-3,
    rate_learning_rate=1e-3,
    accumulate=1,
    initial_rate=1e-3,
  )
  first, last = history[:8], history[-8:]
  assert sum(h["edit"] for h in last) < 0.8 * sum(h["edit"] for h in first)
  assert np.mean([h["locality"] for h in last]) < 1.0


@pytest.mark.slow
def test_edits_of_a_batch_come_off_bit_for_bit():
  model, params, batch = setting("gpt_2")
  editors = mend.Mend(model, mend.last_projections(model), rank=4)
  editor = editors.init(jax.random.key(0), params, rate=0.5)
  statistics = editors.statistics(params, [batch])
  made = editors.edits(editor, statistics, params, batch)
  changed = params
  for edit in made:
    changed = edit.apply(changed)
  at_once = jax.jit(editors.apply)(editor, statistics, params, batch)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
    changed,
    at_once,
  )
  for edit in reversed(made):
    changed = edit.remove(changed)
  jax.tree.map(np.testing.assert_array_equal, changed, params)


def test_refusals():
  model, _ = tiny_models.build("t5_1_1")
  with pytest.raises(
    UserError,
    match="^the feed-forward network GatedMlp has no projection 'wi'; it has "
    "wi_0, wi_1, wo$",
  ):
    mend.last_projections(model)
  with pytest.raises(UserError, match="has 2 layers, fewer than the 9 whose"):
    mend.last_projections(model, 9, ("wo",))
