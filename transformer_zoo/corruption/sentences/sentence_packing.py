"""Rows of whole sentences: RoBERTa's FULL-SENTENCES and DOC-SENTENCES.

    [CLS] sentences [SEP]                        DOC-SENTENCES
    [CLS] sentences [SEP] sentences [SEP]        FULL-SENTENCES, two documents

Every sentence is in one row of an epoch; one that is longer than a row is cut
into several (Liu et al. 2019, section 4.2).
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import check_encoder_lengths
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.sentences.documents import Chunking
from transformer_zoo.corruption.sentences.documents import masked
from transformer_zoo.corruption.sentences.documents import Sentences
from transformer_zoo.corruption.special_tokens import separator_id
from transformer_zoo.errors import UserError

_FRAME = 2  # [CLS] and the last [SEP]


class _Packed(Corruption):
  """The common part of both packings."""

  layout = "encoder"
  unit = "sentence"
  fewest_documents = 1

  def __post_init__(self):
    if not isinstance(self.masking, Masking):
      raise UserError(
        f"{type(self).__name__}.masking is {self.masking!r}; it must be "
        "@Masking()."
      )

  def chunking(self, length: int) -> Chunking:
    """Returns how text is cut for rows of `length` tokens."""
    return Chunking(length - _FRAME, crossing=self.crossing)

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths and vocabularies that leave nothing to predict.

    Returns:
      the share of examples whose targets will be cut: none.

    Raises:
      UserError: as `MaskedLanguageModel.check`.
    """
    check_encoder_lengths(lengths, _FRAME + 2)
    self.masking.check(vocabulary)
    return 0.0

  def lengths(
    self, text: Sentences, starts: np.ndarray, ends: np.ndarray, length: int
  ) -> np.ndarray:
    """Returns the tokens that examples take, room for [CLS] too, int64 [n]."""
    del length
    first, last = (
      text.documents_of(text.sentences_at(places))
      for places in (starts, ends - 1)
    )
    return ends - starts + last - first + _FRAME

  def __call__(
    self,
    text: Sentences,
    starts: np.ndarray,
    ends: np.ndarray,
    length: int,
    draws: Draws,
    vocabulary: Any,
  ) -> dict[str, Ragged]:
    """Makes the examples of some chunks.

    Args:
      text: the sentences.
      starts: The starts of the chunks, int64 [B].
      ends: The ends of the chunks, int64 [B].
      length: most tokens of an example.
      draws: source of randomness, one key per chunk.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `inputs`, `targets` and `weights`.
    """
    rows = _separated(text, starts, ends, vocabulary)
    return masked(rows, length, self.masking, draws, vocabulary)


@dataclasses.dataclass(frozen=True)
class FullSentences(_Packed):
  """Rows full of sentences, with a separator where a document ends.

  Attributes:
    masking: The choice of masked tokens and their replacement.
  """

  masking: Masking = dataclasses.field(default_factory=Masking)
  crossing = True


@dataclasses.dataclass(frozen=True)
class DocSentences(_Packed):
  """As `FullSentences`, but a row ends with its document.

  Rows are shorter: they are packed, which gives each example segment ids of its
  own, or a batch needs more of them for as many tokens.

  Attributes:
    masking: The choice of masked tokens and their replacement.
  """

  masking: Masking = dataclasses.field(default_factory=Masking)
  crossing = False


def _separated(
  text: Sentences, starts: np.ndarray, ends: np.ndarray, vocabulary: Any
) -> Ragged:
  """Returns the tokens with [CLS] before and [SEP] behind each document."""
  tokens = text.read(starts, ends - starts)
  row_ends = np.cumsum(tokens.lengths)
  row_starts = row_ends - tokens.lengths
  first, last = (
    text.documents_of(text.sentences_at(places))
    for places in (starts, ends - 1)
  )
  # The documents that end within a row, before the one that it ends with.
  inner = last - first
  owners = np.repeat(np.arange(len(starts)), inner)
  within = np.arange(inner.sum()) - np.repeat(np.cumsum(inner) - inner, inner)
  document_ends = text.ends[
    text.first_sentences[first[owners] + within + 1] - 1
  ]
  separators = np.sort(
    np.append(document_ends - starts[owners] + row_starts[owners], row_ends)
  )
  places, ids = separators, np.full(len(separators), separator_id(vocabulary))
  lengths = tokens.lengths + inner + 1
  if vocabulary.cls_id is not None:
    # Where a row follows another, the separator of that goes first.
    places = np.append(places, row_starts)
    ids = np.append(ids, np.full(len(row_starts), vocabulary.cls_id))
    lengths = lengths + 1
  return Ragged(np.insert(tokens.values, places, ids), lengths)
