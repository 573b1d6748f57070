"""Properties of models, tested by moving tokens; and computing again."""

import functools

from flax import linen as nn
import jax
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.stack import REMAT_POLICIES

LENGTH = 7
CAUSAL = np.tri(LENGTH, dtype=bool)
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


def influence(model, batch) -> np.ndarray:
  """Whether the logits of a place move with a token that is read, [L, L].

  Each token is another one in a row of its own; the last row is as it was.
  """
  rows = {name: np.repeat(v, LENGTH + 1, axis=0) for name, v in batch.items()}
  places = np.arange(LENGTH)
  rows["decoder_input_tokens"][places, places] = 47
  params = tiny_models.random_parameters(model)
  logits = np.asarray(tiny_models.forward(model)(params, rows))
  return (logits[:-1] != logits[-1]).any(axis=-1).T


# Stacks of every kind; variants_test.py moves tokens of every architecture.
@pytest.mark.parametrize(
  "variant",
  [
    *(("bart",), ("gpt_j",), ("llama",), ("shared",)),
    *(("lm", f"positions/{name}.gin") for name in ("alibi", "shaw")),
  ],
  ids="-".join,
)
def test_a_token_sees_all_before_it_and_none_after(variant):
  model, _ = tiny_models.build(*variant, **ONE_LAYER)
  np.testing.assert_array_equal(influence(model, one_row()), CAUSAL)


@pytest.mark.parametrize(
  "part",
  [
    None,
    "positions/alibi.gin",
    *(
      pytest.param(part, marks=pytest.mark.slow)
      for part in POSITIONS
      if "alibi" not in part
    ),
  ],
)
def test_prefix_tokens_see_each_other_and_targets_what_is_before_them(part):
  parts = [part] if part else []
  model, _ = tiny_models.build("prefix_lm", *parts, **ONE_LAYER)
  prefix = np.arange(LENGTH) < 4
  batch = {
    **one_row(),
    "decoder_causal_attention": prefix.astype(np.int32)[None],
  }
  np.testing.assert_array_equal(
    influence(model, batch), CAUSAL | (prefix & prefix[:, None])
  )


def test_banded_layers_see_no_further_than_their_band():
  model, _ = tiny_models.build(
    "gpt_3", bindings=("Windows.sizes=(3,)",), **ONE_LAYER
  )
  np.testing.assert_array_equal(
    influence(model, one_row()), CAUSAL & ~np.tri(LENGTH, k=-3, dtype=bool)
  )


FEW = [
  f"positions/{name}.gin" for name in ("alibi", "learned", "rotary", "shaw")
]


@pytest.mark.parametrize(
  "part",
  [
    pytest.param(part, marks=() if part in FEW else pytest.mark.slow)
    for part in POSITIONS
  ],
)
def test_distances_alone_matter_where_positions_are_relative(part):
  model, _ = tiny_models.build("lm", part, **ONE_LAYER)
  params = tiny_models.random_parameters(model)
  tokens = one_row()["decoder_input_tokens"]

  def logits_at(model, places):
    return model.decoder(
      model.token_embedder(tokens),
      embedder=model.token_embedder,
      mask_B1LM=masks.causal_mask(LENGTH),
      positions=Positions(places, places),
    )

  program = jax.jit(nn.apply(logits_at, model))
  here, there = (
    np.asarray(program({"params": params}, np.arange(LENGTH)[None] + offset))
    for offset in (0, 400)
  )
  difference = np.abs(there - here).max() / np.abs(here).max()
  if part in ABSOLUTE:
    assert difference > 0.1
  else:
    assert difference < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
  ("architecture", "policies"),
  [("t5_1_1", REMAT_POLICIES), ("gpt_3", ("none", "full"))],
)
def test_what_is_computed_again_changes_neither_loss_nor_gradient(
  architecture, policies
):
  """Dropout included: what is computed again has to draw the same."""
  expected = None
  for policy in policies:
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
