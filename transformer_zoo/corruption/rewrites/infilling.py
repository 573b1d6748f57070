"""Tokens of a sequence masked, deleted, or infilled span by span (BART)."""

import dataclasses
import math
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import check_density
from transformer_zoo.corruption.masks.noise_masks import word_starts
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError

# Span lengths less likely than this are never drawn, as in fairseq.
_RAREST = 1e-7


@dataclasses.dataclass(frozen=True)
class TokenMasking:
  """Masks tokens of a text, a fixed number, each by a mask of its own.

  The paper follows BERT and gives no rate.

  Attributes:
    noise_density: share of the tokens that is masked, rounded up.
  """

  noise_density: float = 0.15

  def __post_init__(self):
    check_density(self, self.noise_density)

  def __call__(self, text: Ragged, draws: Draws, vocabulary: Any) -> Ragged:
    hidden = _chosen(text, draws, self.noise_density)
    mask_id = special_tokens.mask_id(vocabulary, "TokenMasking")
    return Ragged(np.where(hidden, mask_id, text.values), text.lengths)


@dataclasses.dataclass(frozen=True)
class TokenDeletion:
  """Deletes tokens of a text, a fixed number.

  Attributes:
    noise_density: share of the tokens that is deleted, rounded up.
  """

  noise_density: float = 0.15

  def __post_init__(self):
    check_density(self, self.noise_density)

  def __call__(self, text: Ragged, draws: Draws, vocabulary: Any) -> Ragged:
    del vocabulary
    return text.where(~_chosen(text, draws, self.noise_density))


@dataclasses.dataclass(frozen=True)
class TextInfilling:
  """Replaces spans of Poisson lengths by one mask each; empty ones insert one.

  Lengths are drawn until they add up to `ceil(noise_density * words)`; the
  last is cut to fit. Spans begin at different words, all choices equally
  likely, and end with the text at the latest; where one runs into another
  their masks become one, so that somewhat less than the budget is hidden. The
  masks of the empty spans are inserted at uniform places of the result. All of
  it as in fairseq.

  Attributes:
    noise_density: share of the words, rounded up, that the spans add up to.
    mean_span_length: The mean of the Poisson distribution, in words.
    whole_words: Whether words are found by the vocabulary; otherwise every
      token is one.
    random_share: chance of a mask to be a random token instead. The paper has
      none, its released recipe 0.1.
  """

  noise_density: float = 0.3
  mean_span_length: float = 3.0
  whole_words: bool = True
  random_share: float = 0.0

  def __post_init__(self):
    check_density(self, self.noise_density)
    if not 0 < self.mean_span_length <= 50:
      raise UserError(
        f"TextInfilling.mean_span_length is {self.mean_span_length!r}; it must "
        "be a number of words above 0 and at most 50."
      )
    if not 0 <= self.random_share <= 1:
      raise UserError(
        f"TextInfilling.random_share is {self.random_share!r}; it must be a "
        "number from 0 to 1."
      )

  def __call__(self, text: Ragged, draws: Draws, vocabulary: Any) -> Ragged:
    words = self._words(text, vocabulary)
    spans, inserted = self._span_lengths(words.lengths, draws)
    begins, ends = _places(text, words, spans, draws)
    # Tokens behind the first of a span; spans may overlap.
    inner = np.bincount(begins + 1, minlength=len(text.values) + 2)
    inner -= np.bincount(ends, minlength=len(inner))
    dropped = np.cumsum(inner)[: len(text.values)] > 0
    masked = text.values.copy()
    masked[begins] = special_tokens.mask_id(vocabulary, "TextInfilling")
    is_mask = np.zeros(len(masked), bool)
    is_mask[begins] = True
    kept = Ragged(masked, text.lengths).where(~dropped)
    is_mask = is_mask[~dropped]
    return self._with_insertions(kept, is_mask, inserted, draws, vocabulary)

  def _words(self, text: Ragged, vocabulary: Any) -> Ragged:
    """Returns the place of the first token of each word of each text."""
    if not self.whole_words:
      return Ragged(np.arange(len(text.values)), text.lengths)
    starts = word_starts(vocabulary)[text.values]
    starts[text.starts[text.lengths > 0]] = True
    return Ragged(np.arange(len(starts)), text.lengths).where(starts)

  def _span_lengths(
    self, words: np.ndarray, draws: Draws
  ) -> tuple[Ragged, np.ndarray]:
    """Draws spans for texts of some numbers of words.

    Returns:
      the lengths of the spans that are not empty, in the order of their words,
      and how many are empty, int64 [B].
    """
    budget = np.ceil(np.round(words * self.noise_density, 6)).astype(np.int64)
    # More spans than any budget takes but once in 10^12 times; the last one is
    # then longer than drawn.
    most = budget + 8 * np.sqrt(budget) + 16
    most = np.ceil(most / self.mean_span_length).astype(np.int64) + 8
    lengths = np.searchsorted(
      self._cumulative(), draws.uniform(most.max(initial=1)), side="right"
    )
    upto = np.cumsum(lengths, axis=1)
    last = np.argmax(upto >= budget[:, None], axis=1)
    enough = upto[np.arange(len(words)), last] >= budget
    last = np.where(enough, np.minimum(last, most - 1), most - 1)[:, None]
    spans = np.arange(lengths.shape[1])
    over = np.take_along_axis(upto - lengths, last, axis=1)
    lengths = np.where(spans == last, budget[:, None] - over, lengths)
    drawn = (spans <= last) & (budget > 0)[:, None]
    empty = np.count_nonzero(drawn & (lengths == 0), axis=1)
    filled = Ragged.selected(lengths, drawn & (lengths > 0))
    # The one that was cut may come anywhere.
    order = draws.permutations(filled.lengths) + filled.starts[:, None]
    return Ragged(filled.values[filled.within(order)], filled.lengths), empty

  def _cumulative(self) -> np.ndarray:
    """Returns the distribution of span lengths, without its end."""
    mean = self.mean_span_length
    chances = [math.exp(-mean)]
    while len(chances) <= mean or chances[-1] >= _RAREST:
      chances.append(chances[-1] * mean / len(chances))
    return np.cumsum(chances)[:-1] / sum(chances)

  def _with_insertions(
    self,
    text: Ragged,
    is_mask: np.ndarray,
    inserted: np.ndarray,
    draws: Draws,
    vocabulary: Any,
  ) -> Ragged:
    """Inserts masks at random places and makes some masks random tokens."""
    lengths = text.lengths + inserted
    result = Ragged(np.empty(lengths.sum(), np.int32), lengths)
    new = result.within(draws.subsets(lengths, inserted))
    result.values[new] = special_tokens.mask_id(vocabulary, "TextInfilling")
    result.values[~new] = text.values
    if self.random_share:
      new[~new] = is_mask
      width = int(lengths.max(initial=0))
      new &= result.within(draws.uniform(width) < self.random_share)
      ids = special_tokens.ordinary_ids(vocabulary)
      random = result.within(ids[draws.integers(len(ids), width)])
      result.values[new] = random[new]
    return result


def _places(
  text: Ragged, words: Ragged, spans: Ragged, draws: Draws
) -> tuple[np.ndarray, np.ndarray]:
  """Draws where spans lie: first token, and token behind the last, of each."""
  chosen = words.within(draws.subsets(words.lengths, spans.lengths))
  first = np.flatnonzero(chosen)
  last_word = np.repeat(words.starts + words.lengths, spans.lengths)
  behind = np.minimum(first + spans.values, last_word)
  begins = np.append(words.values, 0)
  # The first word of the next text is where this one ends, or there is none.
  text_ends = np.repeat(text.starts + text.lengths, spans.lengths)
  ends = np.where(behind < last_word, begins[behind], text_ends)
  return begins[first], ends


def _chosen(text: Ragged, draws: Draws, density: float) -> np.ndarray:
  """Chooses `ceil(density * length)` tokens of each text, flat."""
  number = np.ceil(np.round(text.lengths * density, 6)).astype(np.int64)
  return text.within(draws.subsets(text.lengths, number))
