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

  def padded(self, width: int, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows, int32 [B, width], and True where they are filled."""
    filled = np.arange(width) < self.lengths[:, None]
    rows = np.full(filled.shape, pad_id, np.int32)
    rows[filled] = self.values
    return rows, filled

  def rows(self) -> list[np.ndarray]:
    """Returns the sequences one by one."""
    return np.split(self.values, np.cumsum(self.lengths)[:-1])

  @property
  def starts(self) -> np.ndarray:
    """Place of the first token of each sequence in `values`, int64 [B]."""
    return np.cumsum(self.lengths) - self.lengths

  def within(self, matrix_BL: np.ndarray) -> np.ndarray:
    """Returns of each row as many entries as the sequence has tokens.

    Args:
      matrix_BL: [B, longest or more].

    Returns:
      an array that stands beside `values`.
    """
    return matrix_BL[np.arange(matrix_BL.shape[1]) < self.lengths[:, None]]

  def where(self, keep: np.ndarray) -> "Ragged":
    """Returns the tokens that `keep` is True for, bool beside `values`."""
    upto = np.concatenate([[0], np.cumsum(keep)])
    starts = self.starts
    return Ragged(self.values[keep], upto[starts + self.lengths] - upto[starts])

  def take(self, order: np.ndarray) -> "Ragged":
    """Returns the sequences in another order, int64 [any number]."""
    lengths = self.lengths[order]
    shifts = self.starts[order] - (np.cumsum(lengths) - lengths)
    places = np.arange(lengths.sum()) + np.repeat(shifts, lengths)
    return Ragged(self.values[places], lengths)

  def ended(self, eos_id: int, width: int, eos_after_trim: bool) -> "Ragged":
    """Returns the sequences with EOS, none longer than `width`.

    Args:
      eos_id: goes behind every sequence.
      width: the most tokens of one, EOS counted.
      eos_after_trim: a sequence that is cut still ends in EOS, as after
        SeqIO's `append_eos_after_trim`; otherwise the end is cut off with it.
    """
    body = np.minimum(self.lengths, width - eos_after_trim)
    has_eos = (self.lengths < width) | eos_after_trim
    lengths = body + has_eos
    values = self.values
    if (body < self.lengths).any():
      within = np.arange(len(values)) - np.repeat(self.starts, self.lengths)
      values = values[within < np.repeat(body, self.lengths)]
    ended = np.full(lengths.sum(), eos_id, np.int32)
    is_body = np.ones(len(ended), bool)
    is_body[np.cumsum(lengths)[has_eos] - 1] = False
    ended[is_body] = values
    return Ragged(ended, lengths)


def join(parts: Sequence[Ragged]) -> Ragged:
  """Returns the sequences of all parts, one part behind the other."""
  return Ragged(
    np.concatenate([part.values for part in parts]),
    np.concatenate([part.lengths for part in parts]),
  )


def interleave(parts: Sequence[Ragged]) -> Ragged:
  """Returns B sequences, each made of one sequence of every part, in order."""
  number = len(parts[0].lengths)
  in_turn = np.arange(len(parts) * number).reshape(len(parts), number).T
  lengths = np.sum([part.lengths for part in parts], axis=0)
  return Ragged(join(parts).take(in_turn.ravel()).values, lengths)
