"""Noise in spans of whole words: BERT's, ALBERT's, SpanBERT's and UniLM's."""

from collections.abc import Sequence
import dataclasses

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.fixed_number import budgets
from transformer_zoo.corruption.masks.fixed_number import check_most
from transformer_zoo.corruption.masks.noise_masks import check_density
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.errors import UserError

# Proposals that are drawn at a time.
_CHUNK = 32
# Proposals per word after which a row stays below its budget.
_PATIENCE = 4
# More tokens than a row can have.
_NEVER = 2**31


@dataclasses.dataclass(frozen=True)
class WordSpans:
  """Spans of whole words until a budget of tokens is used up.

  The number of words of a span is drawn from given weights, its place
  uniformly among the words; a span that overlaps one drawn before, or holds a
  special token, is drawn again. A span that exceeds what is left of the budget
  gives up words at its end (ALBERT), or is cut within a word (SpanBERT).

      BERT, whole words:    WordSpans()
      ALBERT, n-grams:      weights (6, 3, 2), as 1/n
                            (`create_pretraining_data.py` b772393)
      SpanBERT, geometric:  weights `geometric_weights(0.2, 10)`, cut_last
                            (Joshi et al. 2020, section 3.1)
      UniLM, cloze:         weights (0.8, 0.1, 0.1), tokens as words
                            (Dong et al. 2019, section 2.3)

  SpanBERT's code also lets a span run into one before it, and begins spans at
  the word of a uniform token, so that long words are begun at more often.

  Attributes:
    noise_density: share of the tokens of a row, special ones counted, that are
      noise: `round(size * density)`, rounded up where spans are cut.
    weights: The weights of spans of 1, 2, ... words; they need not add up to 1.
    cut_last: meet the budget exactly, with a part of a word if need be.
    whole_words: Whether words are found by the vocabulary; otherwise, and where
      the text is not known, every token is a word.
    most: The largest number of noise tokens of a row; None for no limit.
  """

  noise_density: float = 0.15
  weights: Sequence[float] = (1.0,)
  cut_last: bool = False
  whole_words: bool = True
  most: int | None = None

  def __post_init__(self):
    check_density(self, self.noise_density)
    check_most(self, self.most)
    if not self.weights or min(self.weights) < 0 or sum(self.weights) <= 0:
      raise UserError(
        f"WordSpans.weights is {self.weights!r}; give non-negative weights of "
        "which one is positive."
      )
    object.__setattr__(self, "weights", tuple(self.weights))

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    shape = draws.batch_size, length
    allowed = np.ones(shape, bool) if rows is None else rows.allowed
    sizes = np.full(shape[0], length) if rows is None else rows.sizes
    starts = np.ones(shape, bool)
    if self.whole_words and rows is not None:
      starts = rows.word_starts
    rounding = np.ceil if self.cut_last else np.rint
    noise = rounding(np.round(sizes * self.noise_density, 6))
    left = budgets(noise, allowed, self.most)
    # Rows need different numbers of proposals.
    draws = draws.branch()
    words = _Words(starts, allowed, len(self.weights))
    enough = 1 if self.cut_last else words.shortest
    edges = np.zeros((shape[0], length + 1), np.int8)
    for tried in range(0, _PATIENCE * length, _CHUNK):
      # A row that cannot reach its budget gives up, whatever the others do.
      left[tried >= _PATIENCE * words.number] = 0
      if not (left >= enough).any():
        break
      rows_of, begins, sizes = words.take(
        *self._proposals(draws, words.number), left, self.cut_last
      )
      edges[rows_of, begins] += 1
      edges[rows_of, begins + sizes] -= 1
    return np.cumsum(edges[:, :-1], axis=1, dtype=np.int8).view(bool)

  def _proposals(
    self, draws: Draws, number: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Draws first words and numbers of words of spans, int64 [_CHUNK, B]."""
    # One draw gives both: what is left of it after the word is uniform too.
    scaled = draws.bits(_CHUNK).T * number.astype(np.uint64)
    firsts = (scaled >> np.uint64(32)).astype(np.int64)
    rest = (scaled & np.uint64(0xFFFFFFFF)) / 2**32
    chances = np.cumsum(self.weights) / sum(self.weights)
    return firsts, 1 + np.searchsorted(chances[:-1], rest, side="right")


class _Words:
  """The words of each row, and which may not be taken any more.

  Attributes:
    number: words of each row, int64 [B].
    shortest: tokens of the shortest word of each row that may be noise, [B].
  """

  def __init__(self, starts: np.ndarray, allowed: np.ndarray, longest: int):
    batch_size, self._length = starts.shape
    self.number = np.count_nonzero(starts, axis=1)
    self._longest = longest
    # Behind the last word of a row there are empty ones that are never taken.
    self._width = int(self.number.max(initial=0)) + longest
    filled = np.arange(self._width) < self.number[:, None]
    self._begins = np.full((batch_size, self._width + 1), self._length)
    self._begins[:, :-1][filled] = np.nonzero(starts)[1]
    self._busy = np.ones((batch_size, self._width), bool)
    self._busy[filled] = ~allowed[starts]
    sizes = np.diff(self._begins, axis=1)
    self.shortest = np.where(self._busy, self._length + 1, sizes).min(axis=1)

  def take(
    self, firsts: np.ndarray, counts: np.ndarray, left: np.ndarray, cut: bool
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes spans one after the other, where a row has room for them.

    Args:
      firsts: first word of each span, int64 [proposals, B].
      counts: words of each span, at most.
      left: tokens that a row may still take, int64 [B]; written to.
      cut: a span ends within a word where the tokens do.

    Returns:
      of the spans that were taken: row, first token, number of tokens.
    """
    rows = np.arange(len(left))
    # [proposals, words of a span, B]: numpy adds up fast over the middle.
    window = np.arange(self._longest)[:, None]
    places = firsts[:, None] + window
    words = rows * self._width + places
    # The tokens of the span up to each word of the window, and with it.
    begins = self._begins[rows, firsts]
    before = self._begins[rows, places] - begins[:, None]
    upto = self._begins[rows, places + 1] - begins[:, None]
    last = np.minimum(counts, self.number - firsts)[:, None]
    # What has to be left for a word to belong to the span.
    needed = np.where(window < last, before + 1 if cut else upto, _NEVER)
    busy = self._busy.reshape(-1)
    sizes = np.zeros(firsts.shape, np.int64)
    for i in range(len(firsts)):
      fits = needed[i] <= left
      fits &= ~(fits & busy.take(words[i])).any(axis=0)
      busy[words[i][fits]] = True
      sizes[i] = np.minimum((upto[i] * fits).max(axis=0), left)
      left -= sizes[i]
    proposal, row = np.nonzero(sizes)
    return row, begins[proposal, row], sizes[proposal, row]


def geometric_weights(p: float, longest: int) -> tuple[float, ...]:
  """Returns `p (1 - p)^(n - 1)` for n = 1 to `longest` (SpanBERT: 0.2, 10).

  The mean length at 0.2 and 10 is 3.8 words. SpanBERT's released code has a
  default p of 0.3.

  Raises:
    UserError: p is not between 0 and 1, or `longest` is less than 1.
  """
  if not 0 < p < 1 or longest < 1:
    raise UserError(
      f"geometric_weights({p!r}, {longest!r}): p must lie between 0 and 1, "
      "the longest span must have at least one word."
    )
  return tuple(p * (1 - p) ** n for n in range(longest))
