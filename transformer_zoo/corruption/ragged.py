"""Sequences of different lengths in one flat array."""

from collections.abc import Sequence
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Ragged:
  """B sequences, one behind the other.

  Attributes:
    values: all tokens, int32 [sum of lengths].
    lengths: int64 [B].
  """

  values: np.ndarray
  lengths: np.ndarray

  @classmethod
  def selected(cls, tokens_BL: np.ndarray, keep_BL: np.ndarray) -> "Ragged":
    """Returns the tokens of each row that `keep_BL` is True for."""
    return cls(tokens_BL[keep_BL], np.count_nonzero(keep_BL, axis=1))

  @classmethod
  def full(cls, tokens_BL: np.ndarray) -> "Ragged":
    """Returns the whole rows."""
    rows, length = tokens_BL.shape
    return cls(tokens_BL.ravel(), np.full(rows, length))

  @classmethod
  def of(cls, sequences: Sequence[np.ndarray]) -> "Ragged":
    """Returns the sequences joined."""
    if not sequences:
      return cls(np.zeros(0, np.int32), np.zeros(0, np.int64))
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    return cls(np.concatenate(sequences).astype(np.int32), lengths)

  def rows(self) -> list[np.ndarray]:
    """Returns the sequences one by one."""
    return np.split(self.values, np.cumsum(self.lengths)[:-1])

  def padded(self, width: int, eos_id: int | None = None) -> np.ndarray:
    """Returns int32 [B, width], cut or padded with 0.

    Args:
      width: tokens of a row.
      eos_id: ends every row, also a cut one; none if None.
    """
    room = width - (eos_id is not None)
    kept = np.minimum(self.lengths, room)
    places = np.arange(width)
    padded = np.zeros((len(kept), width), np.int32)
    if (self.lengths > room).any():
      starts = np.cumsum(self.lengths) - self.lengths
      within = np.arange(len(self.values)) - np.repeat(starts, self.lengths)
      values = self.values[within < room]
    else:
      values = self.values
    padded[places < kept[:, None]] = values
    if eos_id is not None:
      padded[np.arange(len(kept)), kept] = eos_id
    return padded
