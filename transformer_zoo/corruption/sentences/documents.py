"""Text as sentences and documents, and how it is cut into chunks of them."""

import array
import bisect
from collections.abc import Callable
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.ragged import Ragged

# Sentences that are looked at together; changes speed and nothing else.
_BLOCK = 1 << 18


@dataclasses.dataclass(frozen=True)
class Sentences:
  """A text as plain arrays; a token is known by its place in the whole text.

  Attributes:
    ends: The end of each sentence, exclusive, ascending, int64 [sentences]. No
      sentence is empty.
    first_sentences: The first sentence of each document, followed by the number
      of sentences, int64 [documents + 1]. No document is empty.
    read: A function from starts and lengths, each int64 [n], to tokens.
  """

  ends: np.ndarray
  first_sentences: np.ndarray
  read: Callable[[np.ndarray, np.ndarray], Ragged]

  @classmethod
  def without_empty(
    cls,
    ends: np.ndarray,
    document_ends: np.ndarray,
    read: Callable[[np.ndarray, np.ndarray], Ragged],
  ) -> "Sentences":
    """Returns a text without the sentences and documents that have no token.

    Args:
      ends: The ends of the sentences, int64; they are not copied if none is
        empty.
      document_ends: The ends of the documents, int64; further ones are left
        out.
      read: The function of the attribute.
    """
    if _has_empty(ends):
      ends = np.unique(ends[ends > 0])
    followed = np.searchsorted(ends, document_ends, side="right")
    return cls(ends, np.unique(np.append(followed, 0)), read)

  @property
  def num_documents(self) -> int:
    """The number of documents."""
    return len(self.first_sentences) - 1

  def starts(self, sentences: np.ndarray) -> np.ndarray:
    """Returns where some sentences start, int64 [n]."""
    before = self.ends[np.maximum(sentences - 1, 0)]
    return np.where(sentences > 0, before, 0)

  def sentences_at(self, places: np.ndarray) -> np.ndarray:
    """Returns the sentences that some places are in, int64 [n]."""
    return np.searchsorted(self.ends, places, side="right")

  def documents_of(self, sentences: np.ndarray) -> np.ndarray:
    """Returns the documents that some sentences are in, int64 [n]."""
    return np.searchsorted(self.first_sentences, sentences, side="right") - 1


@dataclasses.dataclass(frozen=True)
class Chunking:
  """Cuts a text into chunks of whole sentences, from its beginning to its end.

  Attributes:
    length: tokens of a chunk.
    reaching: the sentence with which a chunk has `length` tokens or more is its
      last (BERT); otherwise a chunk never has more, and a longer sentence is
      cut (RoBERTa).
    crossing: a chunk goes on in the next document, with room for a separator
      between the two.
    fewest: sentences of a chunk, also where one fewer would do.
    most: sentences of a chunk, any number if None.
    incomplete: the last sentences of a document make a chunk where they are
      fewer than `fewest`; otherwise they are left out.
  """

  length: int
  reaching: bool = False
  crossing: bool = False
  fewest: int = 1
  most: int | None = None
  incomplete: bool = True


def cut(text: Sentences, chunking: Chunking) -> tuple[np.ndarray, np.ndarray]:
  """Cuts a text into chunks in one pass, in 16 bytes of memory per chunk.

  Args:
    text: the sentences.
    chunking: The rule that cuts text into chunks.

  Returns:
    places where the chunks start, and where they end, int64 [chunks] each.
  """
  starts, ends = array.array("q"), array.array("q")
  first, number = 0, len(text.ends)
  while first < number:
    first = _cut_block(text, chunking, first, starts, ends)
  return np.array(starts, np.int64), np.array(ends, np.int64)


def _has_empty(ends: np.ndarray) -> bool:
  """Returns whether a sentence has no token, block by block."""
  return bool(len(ends) and ends[0] == 0) or any(
    (np.diff(ends[start : start + _BLOCK + 1]) == 0).any()
    for start in range(0, len(ends), _BLOCK)
  )


def _cut_block(
  text: Sentences,
  chunking: Chunking,
  first: int,
  starts: array.array,
  ends: array.array,
) -> int:
  """Appends the chunks that start in a block of sentences from `first` on.

  Returns:
    the sentence that follows them.
  """
  length = chunking.length
  block = min(_BLOCK, len(text.ends) - first)
  # A chunk that starts in the block ends in the window: no sentence is empty.
  window = np.arange(
    first, min(first + block + length + chunking.fewest, len(text.ends))
  )
  ends_at = np.asarray(text.ends[window[0] : window[-1] + 1])
  starts_at = np.append(text.starts(window[:1]), ends_at[:-1])
  documents = text.documents_of(window)
  # Places in the text with a separator between any two documents.
  separated = ends_at + documents
  aims = starts_at + documents + length
  if chunking.crossing:
    limits = np.full(len(window), len(window))
  else:
    limits = np.minimum(
      text.first_sentences[documents + 1] - first, len(window)
    )
  nexts = memoryview(
    np.minimum(_reached(separated, aims[:block], chunking), limits[:block])
  )
  starts_at, ends_at = memoryview(starts_at), memoryview(ends_at)
  sentence = 0
  while sentence < block:
    following = nexts[sentence]
    start = starts_at[sentence]
    if following == sentence:  # it is longer than a chunk
      while ends_at[sentence] - start > length:
        starts.append(start)
        start += length
        ends.append(start)
      aim = start + int(documents[sentence]) + length
      following = bisect.bisect_right(separated, aim, sentence)
      following = min(following, int(limits[sentence]))
    if chunking.incomplete or following - sentence >= chunking.fewest:
      starts.append(start)
      ends.append(ends_at[following - 1])
    sentence = following
  return first + sentence


def _reached(
  separated: np.ndarray, aims: np.ndarray, chunking: Chunking
) -> np.ndarray:
  """Returns the sentence after each chunk that could start, int64 [block]."""
  if not chunking.reaching:
    return np.searchsorted(separated, aims, side="right")
  sentences = np.arange(len(aims))
  following = np.searchsorted(separated, aims, side="left") + 1
  following = np.maximum(following, sentences + chunking.fewest)
  if chunking.most is not None:
    following = np.minimum(following, sentences + chunking.most)
  return following


def masked(
  rows: Ragged, width: int, masking: Masking, draws: Draws, vocabulary: Any
) -> dict[str, Ragged]:
  """Hides tokens of rows that have their special tokens.

  Args:
    rows: The token ids of the rows, special tokens included.
    width: The width of the longest row at least.
    masking: The choice of masked tokens and their replacement.
    draws: source of randomness, one key per row.
    vocabulary: The vocabulary of the tokens.

  Returns:
    `inputs`, `targets` and `weights` of the same lengths.
  """
  targets, filled = rows.padded(width, vocabulary.pad_id)
  inputs, hidden = masking(targets, draws, vocabulary)
  return {
    "inputs": Ragged(inputs[filled], rows.lengths),
    "targets": rows,
    "weights": Ragged(hidden[filled].astype(np.int32), rows.lengths),
  }
