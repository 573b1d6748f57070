"""Token features of an encoder-decoder model, equal to SeqIO's key by key.

`seqio.EncDecFeatureConverter(pack=False)` and `(pack=True)`
(seqio/feature_converters.py), in numpy, for a whole batch at once.
"""

from collections.abc import Mapping

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.vocabularies import Vocabulary


def trim(ids: np.ndarray, length: int, eos_after_trim: bool) -> np.ndarray:
  """Returns at most `length` ids.

  Args:
    ids: int32 [any length], EOS included where the task has one.
    length: the most that stays.
    eos_after_trim: a sequence that ended in EOS still does, as after SeqIO's
      `append_eos_after_trim`; otherwise the end is cut off with it.
  """
  if len(ids) <= length:
    return ids
  trimmed = ids[:length]
  if eos_after_trim and ids[-1] == Vocabulary.eos_id:
    trimmed = trimmed.copy()
    trimmed[-1] = Vocabulary.eos_id
  return trimmed


def to_batch(
  inputs: Ragged,
  targets: Ragged,
  rows: np.ndarray,
  *,
  num_rows: int,
  lengths: Mapping[str, int],
  packing: bool,
) -> dict[str, np.ndarray]:
  """Lays examples out in rows.

  Args:
    inputs: trimmed ids of each example.
    targets: trimmed ids of each example.
    rows: int [examples], the row of each, ascending; without packing no two
      are the same.
    num_rows: rows of the batch; those without an example are all 0.
    lengths: width of a row for 'inputs' and 'targets'; all examples of a row
      fit into it together.
    packing: adds segment ids and positions.

  Returns:
    {SeqIO's key: int32 [num_rows, lengths['inputs' or 'targets']]}
  """
  segments = _count_within(rows) + 1
  encoder = _scatter(inputs, rows, segments, num_rows, lengths["inputs"])
  decoder = _scatter(targets, rows, segments, num_rows, lengths["targets"])
  target_tokens = decoder["tokens"]
  input_tokens = np.zeros_like(target_tokens)
  input_tokens[:, 1:] = target_tokens[:, :-1]
  if packing:
    segment_ids = decoder["segment_ids"]
    input_tokens[:, 1:] *= segment_ids[:, 1:] == segment_ids[:, :-1]
  batch = {
    "encoder_input_tokens": encoder["tokens"],
    "decoder_target_tokens": target_tokens,
    "decoder_input_tokens": input_tokens,
    "decoder_loss_weights": (target_tokens != Vocabulary.pad_id).astype(
      np.int32
    ),
  }
  if packing:
    for key in ("segment_ids", "positions"):
      batch["encoder_" + key] = encoder[key]
      batch["decoder_" + key] = decoder[key]
  return batch


def _scatter(
  sequences: Ragged,
  rows: np.ndarray,
  segments: np.ndarray,
  num_rows: int,
  width: int,
) -> dict[str, np.ndarray]:
  """Returns tokens, segment_ids and positions, int32 [num_rows, width]."""
  result = {
    key: np.zeros((num_rows, width), np.int32)
    for key in ("tokens", "segment_ids", "positions")
  }
  sizes = sequences.lengths
  if not sizes.size:
    return result
  ends = np.cumsum(sizes)
  starts = ends - sizes
  # Tokens before an example within its row: those before it in the batch, less
  # those before the row's first example.
  first_of_row = np.searchsorted(rows, rows)
  offsets = rows * width + starts - starts[first_of_row]
  positions = np.arange(ends[-1]) - np.repeat(starts, sizes)
  places = np.repeat(offsets, sizes) + positions
  result["tokens"].reshape(-1)[places] = sequences.values
  result["segment_ids"].reshape(-1)[places] = np.repeat(segments, sizes)
  result["positions"].reshape(-1)[places] = positions
  return result


def _count_within(rows: np.ndarray) -> np.ndarray:
  """Returns 0, 1, ... within each run of equal `rows`."""
  return np.arange(len(rows)) - np.searchsorted(rows, rows)
