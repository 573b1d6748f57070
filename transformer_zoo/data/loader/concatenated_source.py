"""Rows of documents joined by EOS, full to the last token."""

from collections.abc import Mapping, Sequence

import numpy as np

from transformer_zoo.corruption.concatenation import ConcatenatedDocuments
from transformer_zoo.corruption.concatenation import end_id
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.loader.examples import Examples
from transformer_zoo.data.loader.examples import used_tokens
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage.token_stream import TokenStream
from transformer_zoo.errors import UserError


class ConcatenatedRows:
  """The documents of a stream with an id behind each, cut in rows.

  A row is a pure function of its number, and nothing is kept in memory.

  Attributes:
    num_rows: whole rows; what is left of the last is not used.
  """

  def __init__(
    self, stream: TokenStream, end_id: int, stride: int, num_tokens: int
  ):
    """Counts the rows.

    Args:
      stream: the documents.
      end_id: goes behind each.
      stride: tokens from the start of a row to the start of the next.
      num_tokens: The number of tokens, from the first, that are used.
    """
    self._stream = stream
    self._document_ends = stream.document_ends
    self._end_id = end_id
    self._stride = stride
    documents = np.searchsorted(self._document_ends, num_tokens, side="right")
    self.num_rows = (num_tokens + int(documents)) // stride

  def __call__(
    self, rows: np.ndarray, length: int
  ) -> tuple[np.ndarray, Ragged]:
    """Returns rows.

    Args:
      rows: The numbers of the rows, int64 [n].
      length: The number of tokens, from the first, that are read of each row.

    Returns:
      tokens, int32 [n, length]; tokens of each document in a row.
    """
    starts = rows * self._stride
    ends = starts + length
    first, last = self._documents_before(starts), self._documents_before(ends)
    pieces = self._stream.read_pieces(
      starts - first, ends - last - (starts - first)
    )
    ended = last - first
    owners = np.repeat(np.arange(len(rows)), ended)
    within = np.arange(ended.sum()) - np.repeat(np.cumsum(ended) - ended, ended)
    documents = first[owners] + within
    # Of the tokens read, those before the end of each document.
    read_before = pieces.starts[owners] + (
      self._document_ends[documents] - (starts - first)[owners]
    )
    tokens = np.insert(pieces.values, read_before, self._end_id)
    # Documents end behind their own id, and with their row.
    row_ends = (np.arange(len(rows)) + 1) * length
    segment_ends = np.unique(
      np.append(read_before + np.arange(len(documents)) + 1, row_ends)
    )
    segments = Ragged(
      np.diff(segment_ends, prepend=0).astype(np.int32),
      np.bincount((segment_ends - 1) // length, minlength=len(rows)),
    )
    return tokens.reshape(len(rows), length), segments

  def _documents_before(self, places: np.ndarray) -> np.ndarray:
    """Returns the documents that end at or before places in the joined text.

    A binary search by hand: document d ends at `document_ends[d] + d + 1`, an
    array that is not made.
    """
    low = np.zeros(len(places), np.int64)
    high = np.full(len(places), len(self._document_ends))
    while (low < high).any():
      middle = np.minimum((low + high) // 2, len(self._document_ends) - 1)
      before = self._document_ends[middle] + middle + 1 <= places
      searched = low < high
      low = np.where(searched & before, middle + 1, low)
      high = np.where(searched & ~before, middle, high)
    return low


class ConcatenatedSource:
  """The rows as examples of a language model or an encoder."""

  cached_bytes = 0
  shares_rows = False

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
    objective: ConcatenatedDocuments,
    features: Sequence[str],
    longest: Mapping[str, int],
    max_tokens: int | None = None,
  ):
    """Opens the stream.

    Args:
      task: A task of unlabelled text.
      split: one of its splits.
      lengths: tokens of each feature.
      objective: The objective that makes examples of the rows.
      features: The features that the model needs.
      longest: lengths that the stream is cut for; of each row the first tokens
        are read, as `lengths` allow.
      max_tokens: only so many of the first tokens.

    Raises:
      UserError: the lengths or the vocabulary do not fit the objective; the
        model needs other features; there is not one whole row.
    """
    objective.check(lengths, task.vocabulary)
    made = ("targets",) if objective.masking is None else ("inputs",)
    if tuple(features) != made:
      raise UserError(
        f"ConcatenatedDocuments makes {made[0]!r} alone, but the model needs "
        f"{' and '.join(map(repr, features))}; use the converter LanguageModel "
        "without masking, Encoder with it."
      )
    self.layout = objective.layout
    self._objective = objective
    self._vocabulary = task.vocabulary
    self._width = lengths[made[0]]
    self._row_length = objective.row_length(lengths, task.vocabulary)
    stride = objective.row_length(longest, task.vocabulary)
    num_tokens = used_tokens(task, split, max_tokens)
    self._rows = ConcatenatedRows(
      TokenStream(task, split), end_id(task.vocabulary), stride, num_tokens
    )
    self.num_examples = self._rows.num_rows
    if not self.num_examples:
      raise UserError(
        f"Split {split!r} of task {task.name!r} has {num_tokens} tokens, fewer "
        f"than one row of {stride}; use smaller lengths or more text."
      )

  def lengths(self, indices: np.ndarray) -> np.ndarray:
    """As `Source.lengths`."""
    return np.full((len(indices), 1), self._width, np.int32)

  def read(self, indices: np.ndarray, seed: int, keys: np.ndarray) -> Examples:
    """As `Source.read`."""
    tokens, segments = self._rows(indices, self._row_length)
    features = self._objective(
      tokens, segments, Draws(seed, keys), self._vocabulary
    )
    return Examples(features, [{} for _ in keys])
