"""Noise in spans of whole words: BERT's, ALBERT's and SpanBERT's."""

from collections.abc import Sequence
import dataclasses

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.noise_masks import check_density
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class WordSpans:
  """Spans of whole words until a budget of tokens is used up.

  The number of words of a span is drawn from given weights, its place
  uniformly; a span that would overlap one drawn before, or hold a token that
  may not be noise, is drawn again. BERT's whole-word masking has weights (1,);
  ALBERT's n-grams (1, 1/2, 1/3) (`create_pretraining_data.py` b772393);
  SpanBERT's spans `geometric_weights(0.2, 10)` (Joshi et al. 2020, section
  3.1), whose budget is met exactly by cutting the last span.

  Attributes:
    noise_density: share of the tokens that may be noise.
    weights: of spans of 1, 2, ... words; they need not add up to 1.
    cut_last: cut the span that would exceed the budget (SpanBERT) instead of
      leaving it out (BERT, ALBERT).
  """

  noise_density: float = 0.15
  weights: Sequence[float] = (1.0,)
  cut_last: bool = False

  def __post_init__(self):
    check_density(self, self.noise_density)
    if not self.weights or min(self.weights) < 0 or sum(self.weights) <= 0:
      raise UserError(
        f"WordSpans.weights is {self.weights!r}; give non-negative weights of "
        "which one is positive."
      )
    object.__setattr__(self, "weights", tuple(self.weights))

  def __call__(
    self,
    draws: Draws,
    length: int,
    word_starts: np.ndarray | None = None,
    allowed: np.ndarray | None = None,
  ) -> np.ndarray:
    """Draws the masks.

    Args:
      draws: source of randomness.
      length: tokens of a row.
      word_starts: True where a word begins, [B, length]; every token is a
        word if None.
      allowed: False where a token may not be noise (padding, [CLS], [SEP]),
        [B, length]; all may if None.

    Returns:
      boolean [B, length].
    """
    shape = draws.batch_size, length
    if word_starts is None:
      word_starts = np.ones(shape, bool)
    if allowed is None:
      allowed = np.ones(shape, bool)
    mask = np.zeros(shape, bool)
    budgets = np.rint(allowed.sum(axis=1) * self.noise_density).astype(int)
    budgets = np.where(allowed.any(axis=1), np.maximum(budgets, 1), 0)
    # Enough tries for every token to be proposed several times over.
    tries = 4 * length
    sizes = np.searchsorted(
      np.cumsum(self.weights) / sum(self.weights),
      draws.uniform(tries),
      side="right",
    )
    places = draws.uniform(tries)
    for row in range(shape[0]):
      starts = np.flatnonzero(word_starts[row])
      ends = np.append(starts[1:], length)
      left = budgets[row]
      for size, place in zip(sizes[row], places[row], strict=True):
        if left <= 0 or not len(starts):
          break
        first = int(place * len(starts))
        last = min(first + size, len(starts) - 1)
        begin, end = starts[first], ends[last]
        if end - begin > left:
          if not self.cut_last:
            continue
          end = begin + left
        if mask[row, begin:end].any() or not allowed[row, begin:end].all():
          continue
        mask[row, begin:end] = True
        left -= end - begin
    return mask


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
