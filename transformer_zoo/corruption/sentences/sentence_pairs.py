"""Pairs of segments: BERT's next sentence, ALBERT's sentence order.

    [CLS] segment A [SEP] segment B [SEP]        token types 0 ... 0 1 ... 1

The text is cut into chunks of sentences once. An epoch has every chunk once,
and what is random about a chunk is drawn whenever it comes: where A ends,
whether B follows, where another B comes from, whether it is short. BERT's own
script cuts as it draws, and takes the sentences that another B displaces up
again; here they wait for another epoch, so that example k is known from its
number.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import check_encoder_lengths
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.ragged import interleave
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.sentences.documents import Chunking
from transformer_zoo.corruption.sentences.documents import masked
from transformer_zoo.corruption.sentences.documents import Sentences
from transformer_zoo.corruption.sentences.segment_pairs import draw_aims
from transformer_zoo.corruption.sentences.segment_pairs import Pair
from transformer_zoo.corruption.sentences.segment_pairs import shortened
from transformer_zoo.corruption.sentences.segment_pairs import split
from transformer_zoo.corruption.sentences.segment_pairs import with_random_next
from transformer_zoo.corruption.special_tokens import separator_id
from transformer_zoo.errors import UserError


class _Pairs(Corruption):
  """The common part of the objectives of sentence pairs."""

  layout = "encoder"
  unit = "sentence"
  fewest_documents = 1

  def __post_init__(self):
    name = type(self).__name__
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if field.name.endswith("_probability") and not 0 <= value <= 1:
        raise UserError(
          f"{name}.{field.name} is {value!r}; a probability lies between 0 "
          "and 1."
        )
    if not isinstance(self.masking, Masking):
      raise UserError(
        f"{name}.masking is {self.masking!r}; it must be @Masking()."
      )
    if self.separators < 1:
      raise UserError(
        f"{name}.separators is {self.separators!r}; segments have "
        "1 (BERT) or 2 (RoBERTa) between them."
      )

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths and vocabularies that leave nothing to predict.

    Returns:
      the share of examples whose targets will be cut: none.

    Raises:
      UserError: as `MaskedLanguageModel.check`.
    """
    check_encoder_lengths(
      lengths, lengths["inputs"] - self._room(lengths["inputs"]) + 2
    )
    self.masking.check(vocabulary)
    return 0.0

  def lengths(
    self, text: Sentences, starts: np.ndarray, ends: np.ndarray, length: int
  ) -> np.ndarray:
    """Returns the tokens that examples take: a whole row, int64 [n]."""
    del text, ends  # the draws decide
    return np.full(len(starts), length)

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
      `inputs`, `targets`, `weights`, `token_types`, and the class of the pair.
    """
    room = self._room(length)
    pair = self._draw(text, starts, ends, room, draws)
    rows, token_types = self._assemble(text, pair, room, draws, vocabulary)
    examples = masked(rows, length, self.masking, draws, vocabulary)
    labels = Ragged.full(pair.labels[:, None])
    return examples | {"token_types": token_types, self.label: labels}

  def _room(self, length: int) -> int:
    """Returns the most tokens of both segments in rows of `length`."""
    return length - 2 - self.separators

  def _assemble(
    self,
    text: Sentences,
    pair: Pair,
    room: int,
    draws: Draws,
    vocabulary: Any,
  ) -> tuple[Ragged, Ragged]:
    """Returns rows with special tokens, and their token types."""
    skipped, lengths = shortened(pair.lengths, room, draws)
    number = lengths.shape[1]
    tokens = text.read((pair.starts + skipped).ravel(), lengths.ravel())
    first, second = (
      tokens.take(np.arange(number) + side * number) for side in (0, 1)
    )
    starts = [] if vocabulary.cls_id is None else [vocabulary.cls_id]
    separator = separator_id(vocabulary)
    ids = starts, [separator] * self.separators, [separator]
    begin, between, end = (
      Ragged.full(np.tile(np.array(some, np.int32), (number, 1)))
      for some in ids
    )
    sides = [interleave([begin, first, between]), interleave([second, end])]
    types = [
      Ragged(np.full(len(side.values), value, np.int32), side.lengths)
      for value, side in enumerate(sides)
    ]
    return interleave(sides), interleave(types)


@dataclasses.dataclass(frozen=True)
class NextSentence(_Pairs):
  """Masked language modelling and next sentence prediction.

  Devlin et al. 2019, appendix A.2, and `create_pretraining_data.py` of
  google-research/bert; RoBERTa's SEGMENT-PAIR (Liu et al. 2019, section 4.2).
  A chunk has the sentences that fill a row, the last of which may not fit; A
  ends after one of them. B is the rest of the chunk, `next_sentence` 0, or a
  stretch of sentences of another document, `next_sentence` 1. What is too long
  is cut at the front or back of the longer segment.

  Attributes:
    masking: The choice of masked tokens and their replacement.
    random_probability: The probability of a B from elsewhere; it is 1 for a
      chunk of one sentence.
    short_probability: The probability of an example that aims at any length
      from 2 tokens on.
    separators: special tokens between A and B; RoBERTa's format has 2.
  """

  masking: Masking = dataclasses.field(default_factory=Masking)
  random_probability: float = 0.5
  short_probability: float = 0.1
  separators: int = 1
  label = "next_sentence"
  fewest_documents = 2

  def chunking(self, length: int) -> Chunking:
    """Returns how text is cut for rows of `length` tokens."""
    return Chunking(self._room(length), reaching=True)

  def _draw(self, text, starts, ends, room, draws):
    aims = draw_aims(room, self.short_probability, draws)
    pair = split(text, starts, ends, aims, draws)
    wanted = np.maximum(aims - pair.lengths[0], 1)
    return with_random_next(text, pair, wanted, self.random_probability, draws)


@dataclasses.dataclass(frozen=True)
class SentencePair(_Pairs):
  """As `NextSentence`, but A and B are one sentence each.

  RoBERTa's SENTENCE-PAIR (Liu et al. 2019, section 4.2). The rows are short,
  and a batch needs more of them for as many tokens.

  Attributes:
    masking: The choice of masked tokens and their replacement.
    random_probability: The probability of a B from elsewhere; it is 1 if A is
      the last sentence of its document.
    separators: special tokens between A and B.
  """

  masking: Masking = dataclasses.field(default_factory=Masking)
  random_probability: float = 0.5
  separators: int = 1
  label = "next_sentence"
  fewest_documents = 2

  def chunking(self, length: int) -> Chunking:
    """Returns how text is cut: into two sentences and two sentences."""
    return Chunking(self._room(length), reaching=True, fewest=2, most=2)

  def _draw(self, text, starts, ends, room, draws):
    del room
    pair = split(text, starts, ends, ends - starts, draws)
    return with_random_next(text, pair, 1, self.random_probability, draws)


@dataclasses.dataclass(frozen=True)
class SentenceOrder(_Pairs):
  """Masked language modelling and sentence order prediction.

  Lan et al. 2020, section 3.1, and `create_pretraining_data.py` of
  google-research/albert: two consecutive segments, `sentence_order` 0, or the
  same with the later one as A, `sentence_order` 1. A chunk of one sentence has
  no order and is left out; that script gives it a B of another document.

  Attributes:
    masking: The choice of masked tokens and their replacement.
    swap_probability: The probability of the later segment as A.
    short_probability: The probability of an example that aims at any length
      from 2 tokens on.
    separators: special tokens between A and B.
  """

  masking: Masking = dataclasses.field(default_factory=Masking)
  swap_probability: float = 0.5
  short_probability: float = 0.1
  separators: int = 1
  label = "sentence_order"

  def chunking(self, length: int) -> Chunking:
    """Returns how text is cut for rows of `length` tokens."""
    return Chunking(
      self._room(length), reaching=True, fewest=2, incomplete=False
    )

  def _draw(self, text, starts, ends, room, draws):
    aims = draw_aims(room, self.short_probability, draws)
    pair = split(text, starts, ends, aims, draws)
    swapped = draws.uniform(1)[:, 0] < self.swap_probability
    return Pair(
      np.where(swapped, pair.starts[::-1], pair.starts),
      np.where(swapped, pair.lengths[::-1], pair.lengths),
      swapped.astype(np.int32),
    )
