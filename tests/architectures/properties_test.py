"""Properties of models, tested by gradients and by moving tokens."""

import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.stack import REMAT_POLICIES

LENGTH = 7
ONE_LAYER = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
POSITIONS = [p for p in tiny_models.PARTS if p.startswith("positions/")]
# Vectors of a token's own position, which say where it stands.
ABSOLUTE = ("positions/learned.gin", "positions/sinusoidal.gin")


def one_row():
  """Inputs and targets in which no token comes twice, and none is 47."""
  inputs = np.arange(3, 3 + LENGTH)[None]
  targets = np.arange(20, 20 + LENGTH)[None]
  return {
    "encoder_input_tokens": inputs,
    "decoder_input_tokens": targets,
    "decoder_target_tokens": targets + 1,
  }


def influence(model, batch, place: int) -> np.ndarray:
  """How much each token read by the decoder moves a logit at a place, [L].

  The logit is of a token that is not read, so that the gradient of the table's
  rows comes through what is read alone, tied or not.
  """

  def logit(params):
    logits = model.apply({"params": params}, batch, method="all_logits")[
      "tokens"
    ]
    return logits[0, place, 47]

  # Not compiled: the models share most operations, and each is one row.
  gradient = jax.grad(logit)(tiny_models.random_parameters(model))
  rows_LD = gradient["token_embedder"]["embedding"][
    batch["decoder_input_tokens"][0]
  ]
  return np.abs(np.asarray(rows_LD)).max(axis=-1)


@pytest.mark.parametrize(
  "variant",
  [(name,) for name in tiny_models.ARCHITECTURES]
  + [("lm", part) for part in POSITIONS],
  ids="-".join,
)
def test_no_gradient_from_the_future(variant):
  model, _ = tiny_models.build(*variant, **ONE_LAYER)
  found = influence(model, one_row(), place=3)
  assert (found[:4] > 0).all()
  np.testing.assert_array_equal(found[4:], 0)


@pytest.mark.parametrize("part", [None, *POSITIONS])
def test_prefix_tokens_see_each_other_and_no_target(part):
  parts = [part] if part else []
  model, _ = tiny_models.build("prefix_lm", *parts, **ONE_LAYER)
  prefix = (np.arange(LENGTH) < 5).astype(np.int32)[None]
  batch = {**one_row(), "decoder_causal_attention": prefix}
  found = influence(model, batch, place=1)
  assert (found[:5] > 0).all()
  np.testing.assert_array_equal(found[5:], 0)


def test_targets_of_a_prefix_language_model_see_what_is_not_after_them():
  model, _ = tiny_models.build("prefix_lm", **ONE_LAYER)
  prefix = (np.arange(LENGTH) < 2).astype(np.int32)[None]
  batch = {**one_row(), "decoder_causal_attention": prefix}
  found = influence(model, batch, place=4)
  assert (found[:5] > 0).all()
  np.testing.assert_array_equal(found[5:], 0)


def test_banded_layers_see_no_further_than_their_band():
  model, _ = tiny_models.build(
    "gpt_3", bindings=("Stack.windows=(3,)",), **ONE_LAYER
  )
  found = influence(model, one_row(), place=5)
  np.testing.assert_array_equal(found > 0, [0, 0, 0, 1, 1, 1, 0])


@pytest.mark.parametrize("part", POSITIONS)
def test_distances_alone_matter_where_positions_are_relative(part):
  model, _ = tiny_models.build("lm", part, **ONE_LAYER)
  params = tiny_models.random_parameters(model)
  tokens = one_row()["decoder_input_tokens"]

  def logits_at(model, offset):
    places = jnp.arange(LENGTH)[None] + offset
    return model.decoder(
      model.token_embedder(tokens),
      embedder=model.token_embedder,
      mask_B1LM=masks.causal_mask(LENGTH),
      positions=Positions(places, places),
    )

  here, there = (
    np.asarray(nn.apply(logits_at, model)({"params": params}, offset))
    for offset in (0, 400)
  )
  difference = np.abs(there - here).max() / np.abs(here).max()
  if part in ABSOLUTE:
    assert difference > 0.1
  else:
    assert difference < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["t5_1_1", "gpt_3"])
def test_what_is_computed_again_changes_neither_loss_nor_gradient(architecture):
  """Dropout included: what is computed again has to draw the same."""
  expected = None
  for policy in REMAT_POLICIES:
    model, converter = tiny_models.build(
      architecture, SCAN_LAYERS=True, REMAT=policy, DROPOUT_RATE=0.3
    )
    batch = tiny_models.lay_out(
      converter, tiny_models.random_examples(), packing=False
    )
    objective = functools.partial(tiny_t5.loss_and_sums, model)
    (loss, _), gradient = jax.jit(jax.value_and_grad(objective, has_aux=True))(
      tiny_models.random_parameters(model), batch, jax.random.key(0)
    )
    if expected is None:
      expected = loss, gradient
      continue
    np.testing.assert_allclose(loss, expected[0], rtol=1e-6)
    for (path, one), other in zip(
      jax.tree.leaves_with_path(gradient),
      jax.tree.leaves(expected[1]),
      strict=True,
    ):
      if [key.key for key in path[-2:]] == ["key", "bias"]:
        continue  # it cancels in the softmax: its gradient is rounding
      scale = np.abs(other).max()
      np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)
