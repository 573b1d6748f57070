"""Batches of random ids, for speed alone."""

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import packing

# The deciles of the lengths of MRPC's 3,668 pairs for training, in pieces of
# BERT's uncased vocabulary with [CLS] and both [SEP]; their mean is 53.2.
_MRPC_DECILES = (19, 36, 41, 45, 50, 53, 57, 61, 64, 70, 103)


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


def decoder_rows(batch_size: int, length: int, vocab_size: int) -> dict:
  """A packed batch for a decoder alone, one text a row, no padding."""
  batch = packed(batch_size, 1, length, vocab_size)
  return {k: v for k, v in batch.items() if k.startswith("decoder_")}


def masked(batch_size: int, length: int, vocab_size: int) -> dict:
  """Full rows of two segments, 15 % of their tokens hidden."""
  rng = np.random.default_rng(0)
  shape = batch_size, length
  hidden = np.zeros(shape, np.int32)
  hidden[:, : round(0.15 * length)] = 1
  hidden = rng.permuted(hidden, axis=1)
  examples = {
    "inputs": Ragged.full(rng.integers(3, vocab_size, shape, np.int32)),
    "targets": Ragged.full(rng.integers(3, vocab_size, shape, np.int32)),
    "weights": Ragged.full(hidden),
    "token_types": Ragged.full(
      np.tile(np.arange(length, dtype=np.int32) >= length // 2, (batch_size, 1))
    ),
    "next_sentence": Ragged.full(rng.integers(0, 2, (batch_size, 1), np.int32)),
  }
  return converters.Encoder()(
    examples,
    np.arange(batch_size),
    num_rows=batch_size,
    lengths={"inputs": length},
    packing=False,
    pad_id=0,
  )


def mrpc_lengths(number: int) -> np.ndarray:
  """The lengths of pairs, drawn with the deciles of MRPC."""
  shares = np.random.default_rng(0).random(number) * (len(_MRPC_DECILES) - 1)
  return np.interp(shares, np.arange(len(_MRPC_DECILES)), _MRPC_DECILES).astype(
    int
  )


def packed_pairs(
  lengths: np.ndarray, batches: int, width: int, vocab_size: int
) -> list[dict]:
  """Pairs of these lengths with a class each, packed by the loader's rule.

  Args:
    lengths: int [pairs].
    batches: Over how many batches the rows are divided.
    width: tokens of a row.
    vocab_size: ids are below it.

  Returns:
    Batches of one shape, of which the last may end in empty rows.
  """
  rng = np.random.default_rng(0)
  converter = converters.Encoder(form="classes")
  capacity = converter.capacities({"inputs": width})
  sizes = converter.sizes(lengths[:, None])
  [rows], [used] = packing.pack(sizes[None], capacity)
  num_rows = -(-used // batches)
  result = []
  for batch in range(batches):
    chosen = np.flatnonzero(rows // num_rows == batch)
    chosen = chosen[np.argsort(rows[chosen], kind="stable")]
    those = lengths[chosen]
    first = np.zeros(those.sum(), np.int32)
    first[np.cumsum(those) - those] = 1
    tokens = rng.integers(3, vocab_size, first.size, np.int32)
    classes = rng.integers(0, 2, first.size, np.int32)
    features = {"inputs": tokens, "targets": classes * first, "weights": first}
    result.append(
      converter(
        {name: Ragged(x, those) for name, x in features.items()},
        rows[chosen] - batch * num_rows,
        num_rows=num_rows,
        lengths={"inputs": width},
        packing=True,
        pad_id=0,
      )
    )
  return result
