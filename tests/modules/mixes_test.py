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


def fresh_mix(model, key):
  """Of a new model; what is not returned is not compiled either."""
  return nn.unbox(state_lib.initial_variables(model, key))["encoder"]["mix"]


@pytest.fixture(scope="module")
def params():
  return tiny_models.random_parameters(bert())


def test_the_last_layer_is_the_output(params):
  expected = hidden(bert(), params)
  for layer in (-1, 2):
    found = hidden(mixed(LayerMix((layer,))), params)
    np.testing.assert_array_equal(found, expected)


def test_layers_are_those_of_shorter_stacks(params):
  one = hidden(bert(NUM_ENCODER_LAYERS=1), params)
  two = hidden(mixed(LayerMix((-1,))), params)
  both = hidden(mixed(LayerMix((1, 2), "concatenation")), params)
  np.testing.assert_allclose(both, np.concatenate([one, two], -1), atol=1e-6)
  for kind, expected in (("sum", one + two), ("mean", (one + two) / 2)):
    found = hidden(mixed(LayerMix((1, -1), kind)), params)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_scanned_layers_are_mixed_alike(params):
  mix = LayerMix((0, 1, 2), "concatenation")
  np.testing.assert_allclose(
    hidden(mixed(mix, SCAN_LAYERS=True), tiny_models.stack_layers(params)),
    hidden(mixed(mix), params),
    atol=1e-5,
  )


def test_a_learned_mix_begins_as_the_mean(params):
  model = mixed(LayerMix((1, 2), "learned"))
  mix = jax.device_get(programs.run(fresh_mix, model, jax.random.key(0)))
  encoder = {**params["encoder"], "mix": mix}
  np.testing.assert_allclose(
    hidden(model, {**params, "encoder": encoder}),
    hidden(mixed(LayerMix((1, 2), "mean")), params),
    atol=1e-6,
  )


def test_what_a_mix_cannot_be(params):
  with pytest.raises(UserError, match="unknown LayerMix.kind 'max'; allowed: "):
    LayerMix(kind="max")
  with pytest.raises(UserError, match="has 3, but the stack has 2 layers; ch"):
    hidden(mixed(LayerMix((3,))), params)


@functools.cache
def tagger():
  model, _ = tiny_models.build(
    "bert", "../heads/tags.gin", NUM_ENCODER_LAYERS=1
  )
  model = model.clone(recurrent=BiLstm(features=5))
  return model, tiny_models.random_parameters(model)


def test_a_recurrent_tagger_reads_no_padding():
  model, params = tagger()

  def tags(tokens):
    batch = {"encoder_input_tokens": tokens}
    found = programs.apply(
      model, {"params": params}, batch, method="all_logits"
    )
    return np.asarray(found["tags"])

  wide = np.pad(TOKENS, ((0, 0), (0, 3)))
  np.testing.assert_allclose(tags(wide)[0, :4], tags(TOKENS)[0, :4], atol=1e-6)
  # Both directions: the first word's tag depends on the last word.
  other = TOKENS.copy()
  other[1, -1] = 20
  assert np.abs(tags(other)[1, 0] - tags(TOKENS)[1, 0]).max() > 0


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
