"""Decoders of halves decode as whole ones."""

import functools

import jax
import numpy as np
import pytest

from tests import tiny_t5
from tests.golden import families
from transformer_zoo.decoding import generate as generation
from transformer_zoo.decoding import side_by_side
from transformer_zoo.modules import target

SUBLAYERS = {"self_attention", "encoder_decoder_attention", "mlp"}


@pytest.fixture
def small_halves(monkeypatch):
  """However small they are."""
  monkeypatch.setattr(side_by_side, "_FEWEST_NUMBERS", 1)


def halves_of(model, params):
  """The names of sublayers that become halves."""
  layer = side_by_side.halved(model, params)[0].decoder.stack.layer
  return {
    name
    for name in SUBLAYERS
    if isinstance(getattr(layer, name, None), side_by_side.SideBySide)
  }


def decode(model, params, inputs):
  found = jax.jit(
    functools.partial(generation.generate, model, max_length=5, eos_id=-1)
  )(params, inputs)
  return found.tokens, found.log_likelihoods


@pytest.mark.parametrize(
  ("name", "changes", "expected"),
  [
    ("marian", {"decoder_layers": 1, "encoder_layers": 1}, SUBLAYERS),
    (
      "umt5",
      {"num_heads": 2, "num_layers": 1, "num_decoder_layers": 1},
      {"encoder_decoder_attention", "mlp"},
    ),
    (
      "llama_with_biases",
      {"num_hidden_layers": 1},
      {"self_attention", "mlp"},
    ),
  ],
)
def test_halves_decode_as_the_whole(
  name, changes, expected, small_halves, monkeypatch
):
  _, model, params, _ = families.setting(name, **changes)
  assert halves_of(model, params) == expected
  inputs = np.random.default_rng(0).integers(3, 40, (3, 5), np.int32)
  tokens, sums = decode(model, params, inputs)
  monkeypatch.setattr(side_by_side, "halved", lambda *whole: whole)
  whole_tokens, whole_sums = decode(model, params, inputs)
  np.testing.assert_array_equal(tokens, whole_tokens)
  np.testing.assert_allclose(sums, whole_sums, rtol=1e-5)


def test_what_stays_whole(small_halves):
  model = tiny_t5.build(NUM_HEADS=2)
  params = tiny_t5.random_parameters(model)
  assert halves_of(model, params) == SUBLAYERS
  with target.compiling_for("tpu"):
    assert not halves_of(model, params)
  with jax.sharding.set_mesh(jax.make_mesh((2,), ("data",))):
    assert not halves_of(model, params)
  scanned = tiny_t5.build(NUM_HEADS=2, SCAN_LAYERS=True)
  assert not halves_of(scanned, tiny_t5.stack_layers(params))
  odd = tiny_t5.build(NUM_HEADS=3)
  assert halves_of(odd, tiny_t5.random_parameters(odd)) == {"mlp"}


def test_small_sublayers_stay_whole():
  model = tiny_t5.build()
  assert not halves_of(model, tiny_t5.random_parameters(model))
