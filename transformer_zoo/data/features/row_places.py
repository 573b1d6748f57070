"""Places of the tokens of examples in the rows of a batch."""

import numpy as np

from transformer_zoo.errors import UserError

# What stands for a number of an example (`next_sentence`) in a row without one.
NO_LABEL = -1


class RowPlaces:
  """Where the tokens of a batch of examples stand in its rows.

  Attributes:
    positions: of each token in its example, int64 [tokens].
  """

  def __init__(
    self, sizes: np.ndarray, rows: np.ndarray, num_rows: int, width: int
  ):
    self._shape = num_rows, width
    # Text that was cut to fill its rows: nothing has a place to be found.
    self._is_full = len(sizes) == num_rows and bool((sizes == width).all())
    if self._is_full:
      self._segments = 1
      self.positions = np.tile(np.arange(width), num_rows)
      return
    starts = np.cumsum(sizes) - sizes
    self.positions = np.arange(sizes.sum()) - np.repeat(starts, sizes)
    # Tokens before an example within its row: those before it in the batch,
    # less those before the row's first example.
    first_of_row = np.searchsorted(rows, rows)
    self._segments = np.repeat(np.arange(len(rows)) - first_of_row + 1, sizes)
    offsets = rows * width + starts - starts[first_of_row]
    self._places = np.repeat(offsets, sizes) + self.positions

  def put(self, values: np.ndarray | int, fill: int = 0) -> np.ndarray:
    """Returns `values` in their places, `fill` elsewhere, int32."""
    if self._is_full:
      values = np.broadcast_to(values, self._shape[0] * self._shape[1])
      return values.astype(np.int32).reshape(self._shape)
    result = np.full(self._shape, fill, np.int32)
    result.reshape(-1)[self._places] = values
    return result

  def packed(self, side: str) -> dict[str, np.ndarray]:
    """Returns the features that tell the examples of a row apart."""
    return {
      f"{side}_segment_ids": self.put(self._segments),
      f"{side}_positions": self.put(self.positions),
    }


def decoder_features(
  places: RowPlaces,
  tokens: np.ndarray,
  packing: bool,
  pad_id: int,
  bos_id: int | None,
) -> dict[str, np.ndarray]:
  """Returns what a decoder reads and should write, int32 [rows, width]."""
  bos_id = pad_id if bos_id is None else bos_id
  targets = places.put(tokens, pad_id)
  inputs = np.full_like(targets, bos_id)
  inputs[:, 1:] = targets[:, :-1]
  batch = {
    "decoder_target_tokens": targets,
    "decoder_input_tokens": inputs,
    "decoder_loss_weights": places.put(1),
  }
  if packing:
    batch |= places.packed("decoder")
    segments = batch["decoder_segment_ids"]
    inputs[:, 1:][segments[:, 1:] != segments[:, :-1]] = bos_id
  return batch


def label_of_rows(
  name: str, values: np.ndarray, rows: np.ndarray, num_rows: int
) -> np.ndarray:
  """Returns one number per row, int32 [num_rows]."""
  if (np.diff(rows) == 0).any():
    raise UserError(
      f"Examples with a number of their own, {name!r}, cannot share a row; set "
      "packing to False."
    )
  result = np.full(num_rows, NO_LABEL, np.int32)
  result[rows] = values
  return result
