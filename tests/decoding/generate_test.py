"""Generation with a model and its cache."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_t5
from transformer_zoo.decoding.generate import generate


def generate_without_cache(model, params, inputs, max_length):
  """Reads the whole prefix again for every token."""
  rows = inputs.shape[0]
  tokens = np.zeros((rows, max_length), np.int32)
  ended = np.zeros(rows, bool)

  # One shape: what comes later is hidden by the causal mask.
  @jax.jit
  def next_logits(decoder_inputs):
    real = jnp.ones_like(decoder_inputs)
    return model.apply({"params": params}, inputs, decoder_inputs, real)

  for position in range(max_length):
    logits = next_logits(tiny_t5.shift_right(tokens))[:, position]
    tokens[:, position] = np.where(ended, 0, np.argmax(logits, axis=-1))
    ended |= tokens[:, position] == 1
  return tokens


@pytest.mark.slow
def test_equals_greedy_decoding_without_a_cache():
  """Of scanned layers; the looped ones are those of t5_beams_golden_test.py."""
  architecture = "t5_1_0"
  sizes = {
    "NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 2, "VOCAB_SIZE": 24
  }  # fmt: skip
  model = tiny_t5.build(architecture, SCAN_LAYERS=True, **sizes)
  params = tiny_t5.stack_layers(
    tiny_t5.random_parameters(tiny_t5.build(architecture, **sizes))
  )
  inputs = tiny_t5.random_batch(rows=16, vocab_size=24)["encoder_input_tokens"]
  made = jax.jit(functools.partial(generate, model), static_argnums=2)(
    params, inputs, 20
  ).tokens[:, 0]
  assert made.dtype == np.int32
  expected = generate_without_cache(model, params, inputs, 20)
  np.testing.assert_array_equal(made, expected)
