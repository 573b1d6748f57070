"""Stacks of their own, between an encoder's layers or around a decoder's."""

import functools

import jax
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.objectives import sequence_to_sequence

pytestmark = pytest.mark.slow
STACKS = tiny_models.STACKS
# Another table, log-probabilities as logits, layers with one set of parameters,
# which have a cache each, and layers that hand on more than one stream.
DECODING = [
  "embeddings/own_tables_softmax_of_encoder.gin",
  "softmax/adaptive.gin",
  "softmax/mixture.gin",
  "sharing/both.gin",
  *tiny_models.SEVERAL_STREAMS,
]
LENGTH = 8
EXAMPLES = tiny_models.random_examples()


@functools.cache
def setting(part, **macros):
  """A model, random parameters and a batch of a row for each example."""
  macros = {"NUM_ENCODER_LAYERS": 3, **macros}
  model, converter = tiny_models.build("t5_1_0", part, **macros)
  params = tiny_models.random_parameters(model)
  batch = tiny_models.lay_out(converter, EXAMPLES, packing=False)
  return model, params, batch


@pytest.mark.parametrize("part", STACKS)
def test_padding_of_the_inputs_changes_nothing(part):
  """A row that is longer has other lengths in every pooled block."""
  model, params, batch = setting(part)
  expected = np.asarray(tiny_models.forward(model)(params, batch))
  wider = {
    name: np.pad(rows, ((0, 0), (0, 5 * name.startswith("encoder"))))
    for name, rows in batch.items()
  }
  found = np.asarray(tiny_models.forward(model)(params, wider))
  real = batch["decoder_target_tokens"] != 0
  np.testing.assert_allclose(
    found[real], expected[real], atol=1e-5 * np.abs(expected).max()
  )


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("part", [*STACKS, *DECODING])
def test_the_cache_gives_what_teacher_forcing_gives(part, beams):
  model, params, batch = setting(part)
  # Padding, which would end an output, is never the likeliest token.
  tables = jax.tree.map(
    lambda table: np.concatenate([np.zeros_like(table[:1]), table[1:]]),
    params["token_embedder"],
  )
  params = {**params, "token_embedder": tables}
  options = DecodingOptions(num_beams=beams, num_return=beams)
  inputs = batch["encoder_input_tokens"]
  outputs = jax.jit(
    lambda params: generate(model, params, inputs, LENGTH, options=options)
  )(params)
  sums = jax.jit(functools.partial(sequence_to_sequence.example_sums, model))
  for tokens, likelihoods in zip(
    np.moveaxis(outputs.tokens, 1, 0), outputs.log_likelihoods.T, strict=True
  ):
    # Padding before the end would be no target of teacher forcing.
    ended = np.cumsum(tokens == 1, axis=1) > 0
    rows = ((tokens != 0) | ended).all(axis=1)
    assert rows.any()
    read = np.pad(tokens[:, :-1], ((0, 0), (1, 0)))
    found = sums(
      params,
      {
        "encoder_input_tokens": inputs,
        "decoder_input_tokens": read,
        "decoder_target_tokens": tokens,
        "decoder_loss_weights": tokens != 0,
      },
    )
    np.testing.assert_allclose(
      -found["loss_sum"][rows], likelihoods[rows], rtol=2e-5, atol=2e-5
    )


@pytest.mark.parametrize("part", tiny_models.UNPACKED)
def test_packed_rows_are_refused(part):
  model, converter = tiny_models.build("t5_1_0", part, NUM_ENCODER_LAYERS=3)
  packed = tiny_models.lay_out(converter, EXAMPLES, packing=True)
  with pytest.raises(UserError, match="set train.packing = False"):
    jax.eval_shape(
      functools.partial(model.init, method="all_logits"),
      jax.random.key(0),
      packed,
    )
