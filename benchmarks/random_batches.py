"""Batches of random ids, for speed alone."""

import numpy as np


def packed(batch_size: int, inputs: int, targets: int, vocab_size: int) -> dict:
  """A packed batch for an encoder-decoder, one example a row, no padding."""
  rng = np.random.default_rng(0)
  encoder = rng.integers(3, vocab_size, (batch_size, inputs), np.int32)
  decoder = rng.integers(3, vocab_size, (batch_size, targets), np.int32)
  return {
    "encoder_input_tokens": encoder,
    "encoder_segment_ids": np.ones_like(encoder),
    "encoder_positions": np.tile(np.arange(inputs), (batch_size, 1)),
    "decoder_input_tokens": np.pad(decoder, ((0, 0), (1, 0)))[:, :-1],
    "decoder_target_tokens": decoder,
    "decoder_loss_weights": np.ones_like(decoder),
    "decoder_segment_ids": np.ones_like(decoder),
    "decoder_positions": np.tile(np.arange(targets), (batch_size, 1)),
  }
