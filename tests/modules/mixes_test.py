"""Mixes of layers, and the recurrent layers of a tagger."""

import functools

import flax.linen as nn
import jax
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.modules.mixes import LayerMix
from transformer_zoo.modules.recurrent import BiLstm
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

TOKENS = np.array([[5, 6, 7, 8, 0, 0], [9, 10, 11, 12, 13, 14]])


def hidden(model, params, tokens=TOKENS):
  return np.asarray(
    programs.apply(
      model,
      {"params": params},
      {"encoder_input_tokens": tokens},
      method="hidden",
    )
  )


@functools.cache
def bert(**macros):
  return tiny_models.build("bert", **macros)[0]


def mixed(mix, **macros):
  model = bert(**macros)
  return model.clone(encoder=model.encoder.clone(mix=mix))


@functools.cache
def looped_and_scanned():
  """What enters the layers and each output, side by side."""
  params = tiny_models.random_parameters(bert())
  mix = LayerMix((0, 1, 2), "concatenation")
  scanned = mixed(mix, SCAN_LAYERS=True)
  return (
    hidden(mixed(mix), params),
    hidden(scanned, tiny_models.stack_layers(params)),
  )


@pytest.mark.slow
def test_layers_are_those_of_shorter_stacks():
  params = tiny_models.random_parameters(bert())
  mixes, _ = looped_and_scanned()
  _, first, last = np.split(mixes, 3, axis=-1)
  one = hidden(bert(NUM_ENCODER_LAYERS=1), params)
  np.testing.assert_allclose(first, one, atol=1e-6)
  np.testing.assert_array_equal(last, hidden(bert(), params))


def test_scanned_layers_are_mixed_alike():
  looped, scanned = looped_and_scanned()
  np.testing.assert_allclose(scanned, looped, atol=1e-5)


STATES = [np.random.RandomState(i).randn(2, 3, 4) for i in range(3)]


@pytest.mark.parametrize(
  "layers, kind, expected",
  [
    ((-1,), "sum", STATES[2]),
    ((1, -1), "sum", STATES[1] + STATES[2]),
    ((0, 2), "mean", (STATES[0] + STATES[2]) / 2),
    ((2, 0), "concatenation", np.concatenate([STATES[2], STATES[0]], -1)),
    ((1, 2), "learned", (STATES[1] + STATES[2]) / 2),
  ],
)
def test_kinds_of_mixes(layers, kind, expected):
  """A learned one as it begins."""
  states = [state.astype(np.float32) for state in STATES]
  mix = LayerMix(layers, kind)
  found, _ = programs.run(
    LayerMix.init_with_output, mix, jax.random.key(0), states
  )
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_learned_mix_is_scaled_and_weighted():
  states = [state.astype(np.float32) for state in STATES]
  weights = {"weights": np.log([1.0, 3.0]), "scale": np.array([2.0])}
  weights = jax.tree.map(np.float32, weights)
  found = programs.apply(
    LayerMix((0, 2), "learned"), {"params": weights}, states
  )
  np.testing.assert_allclose(
    found, 2 * (STATES[0] / 4 + STATES[2] * 3 / 4), rtol=1e-5, atol=1e-6
  )


def test_what_a_mix_cannot_be():
  with pytest.raises(UserError, match="unknown LayerMix.kind 'max'; allowed: "):
    LayerMix(kind="max")
  with pytest.raises(UserError, match="has 3, but the stack has 2 layers; ch"):
    jax.eval_shape(LayerMix((3,)).apply, {}, STATES)


@functools.cache
def tagger():
  model, _ = tiny_models.build(
    "bert", "../heads/tags.gin", NUM_ENCODER_LAYERS=1
  )
  model = model.clone(recurrent=BiLstm(features=5))
  return model, tiny_models.random_parameters(model)


@pytest.mark.slow
def test_padding_behind_a_text_changes_nothing_of_it():
  module = BiLstm(features=2)
  x_BLD = np.random.RandomState(0).randn(1, 3, 4).astype(np.float32)
  shapes = jax.eval_shape(module.init, jax.random.key(0), x_BLD)
  random = np.random.RandomState(1)
  variables = jax.tree.map(
    lambda leaf: random.randn(*leaf.shape).astype(np.float32),
    nn.unbox(shapes),
  )
  wide_BLD = np.pad(x_BLD, ((0, 0), (0, 2), (0, 0)))
  np.testing.assert_allclose(
    programs.apply(module, variables, wide_BLD)[:, :3],
    programs.apply(module, variables, x_BLD),
    atol=1e-6,
  )


@pytest.mark.slow
def test_a_recurrent_tagger_reads_no_padding():
  model, params = tagger()

  def tags(tokens, params=params):
    batch = {"encoder_input_tokens": tokens}
    found = programs.apply(
      model, {"params": params}, batch, method="all_logits"
    )
    return np.asarray(found["tags"])

  expected = tags(TOKENS)
  # The first text has none of these positions; its padding has.
  moved = jax.tree.map(np.copy, params)
  moved["encoder"]["position_embedder"]["pos_embedding"][4:] *= -1
  found = tags(TOKENS, moved)
  np.testing.assert_allclose(found[0, :4], expected[0, :4], atol=1e-6)
  assert np.abs(found[1] - expected[1]).min() > 0
  # Both directions: the first word's tag depends on the last word.
  other = TOKENS.copy()
  other[1, -1] = 20
  assert np.abs(tags(other)[1, 0] - expected[1, 0]).max() > 0


@pytest.mark.slow
def test_a_recurrent_tagger_reads_the_text_and_not_its_predicted_places():
  """Training asks for first pieces of words, before all other places."""
  model, params = tagger()
  places = np.array([[3, 1, 0], [1, 4, 5]])

  x_BLD = hidden(model, params)

  def tags(places_BP):
    return np.asarray(
      programs.apply(
        model,
        {"params": params},
        x_BLD,
        "tags",
        places_BP=places_BP,
        method="logits",
      )
    )

  expected = np.take_along_axis(tags(None), places[..., None], axis=1)
  np.testing.assert_allclose(tags(places), expected, atol=1e-6)


def test_a_recurrent_tagger_lies_on_a_mesh():
  layout = Partitioning(num_partitions=2)
  mesh = layout.mesh(jax.devices()[:2])
  model, _ = tagger()
  boxed = state_lib.abstract_variables(model)
  layout.check(mesh, boxed, 2)
  shardings = layout.shardings(mesh, boxed, state_lib.abstract_params(model))
  assert jax.tree.structure(shardings) == jax.tree.structure(nn.unbox(boxed))
