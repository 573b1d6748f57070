"""Noise masks: which tokens of a batch are corrupted (True is noise).

A mask is a frozen dataclass; called with a source of draws and the length of
the rows it returns a boolean array [B, length]. Row b is a function of what
example b draws, and of nothing else in the batch.
"""

from collections.abc import Sequence
import dataclasses

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError


def _check_density(mask: object, density: float, highest: float = 1.0) -> None:
  is_number = isinstance(density, int | float) and not isinstance(density, bool)
  if not is_number or not 0 < density <= highest:
    raise UserError(
      f"{type(mask).__name__}.noise_density is {density!r}; it must be a "
      f"number above 0 and at most {highest:g}."
    )


@dataclasses.dataclass(frozen=True)
class Iid:
  """Each token is noise on its own (t5 `iid_noise_mask`).

  Attributes:
    noise_density: chance of a token to be noise.
  """

  noise_density: float = 0.15

  def __post_init__(self):
    _check_density(self, self.noise_density)

  def __call__(self, draws: Draws, length: int) -> np.ndarray:
    return draws.uniform(length) < np.float32(self.noise_density)


@dataclasses.dataclass(frozen=True)
class RandomSpans:
  """Random spans with an exact number of noise tokens.

  Spans alternate, beginning with non-noise and so ending in noise: the last
  token is always noise, and targets have no closing sentinel although the T5
  paper's Figure 2 shows one. Both segmentations are uniform over all ways to
  cut. From t5 `random_spans_noise_mask`.

  Attributes:
    noise_density: share of noise tokens, below 1.
    mean_noise_span_length: tokens per noise span, at least 1.
    random_roll: rotate the mask by a random offset, so that every place is
      noise equally often.
  """

  noise_density: float = 0.15
  mean_noise_span_length: float = 3.0
  random_roll: bool = False

  def __post_init__(self):
    _check_density(self, self.noise_density)
    mean = self.mean_noise_span_length
    if isinstance(mean, bool) or not isinstance(mean, int | float) or mean < 1:
      raise UserError(
        f"RandomSpans.mean_noise_span_length is {mean!r}; it must be a number "
        "of at least 1 token."
      )

  def counts(self, length: int) -> tuple[int, int]:
    """Returns (noise tokens, noise spans) of a row of `length` tokens.

    Fixed by the length; only their places are drawn. Halves are rounded to
    even: `clamp(round(length * density), 1, length - 1)` tokens and
    `max(1, round(noise / mean))` spans. The second is also kept within the
    number of non-noise tokens, which t5 leaves out (it matters above density
    0.5).
    """
    noise = min(max(round(length * self.noise_density), 1), length - 1)
    spans = max(1, round(noise / self.mean_noise_span_length))
    return noise, min(spans, noise, length - noise)

  def __call__(self, draws: Draws, length: int) -> np.ndarray:
    rows = draws.batch_size
    if length < 2:
      return np.zeros((rows, length), bool)
    num_noise, num_spans = self.counts(length)
    noise_ends = _segment_ends(draws, num_noise, num_spans)
    other_ends = _segment_ends(draws, length - num_noise, num_spans)
    # Span k of noise begins after k + 1 segments of the rest and k of noise.
    noise_starts = np.pad(noise_ends, ((0, 0), (1, 0)))[:, :-1]
    steps = np.zeros((rows, length + 1), np.int8)
    row = np.arange(rows)[:, None]
    steps[row, other_ends + noise_starts] = 1
    steps[row, other_ends + noise_ends] = -1
    mask = np.cumsum(steps[:, :-1], axis=1, dtype=np.int8).view(bool)
    if self.random_roll:
      offset = draws.integers(length, 1)
      places = (np.arange(length) - offset) % length
      mask = np.take_along_axis(mask, places, axis=1)
    return mask


def _segment_ends(draws: Draws, items: int, segments: int) -> np.ndarray:
  """Cuts `items` into non-empty segments: their ends, int64 [B, segments]."""
  rows = draws.batch_size
  cuts = draws.subsets(np.full(rows, items - 1), np.full(rows, segments - 1))
  ends = np.full((rows, segments), items)
  ends[:, :-1] = np.nonzero(cuts)[1].reshape(rows, segments - 1) + 1
  return ends


@dataclasses.dataclass(frozen=True)
class RegularSpans:
  """Equally spaced spans of one length (t5 `regular_noise_mask`).

  Length and offset are drawn for each row; the spans at its ends may be cut.

  Attributes:
    noise_density: about the share of noise tokens.
    min_span_length: the shortest length of a span.
    max_span_length: the longest.
  """

  noise_density: float = 0.15
  min_span_length: int = 1
  max_span_length: int = 5

  def __post_init__(self):
    _check_density(self, self.noise_density)
    if not 1 <= self.min_span_length <= self.max_span_length:
      raise UserError(
        f"RegularSpans has span lengths from {self.min_span_length} to "
        f"{self.max_span_length}; they must be at least 1 and in order."
      )

  def __call__(self, draws: Draws, length: int) -> np.ndarray:
    choices = self.max_span_length - self.min_span_length + 1
    span_B1 = self.min_span_length + draws.integers(choices, 1)
    period_B1 = np.rint(span_B1 / self.noise_density).astype(np.int64)
    offset_B1 = draws.integers(period_B1, 1)
    return (np.arange(length) + offset_B1) % period_B1 < span_B1


@dataclasses.dataclass(frozen=True)
class RandomPrefix:
  """The first part of a row (t5 `random_prefix_noise_mask`).

  At density 0.5 the prefix has 1 to length - 1 tokens, equally likely; below,
  it is at least `1 - 2 * density` of the row, so that the mean of what follows
  it is the density.

  Attributes:
    noise_density: mean share of the tokens after the prefix, at most 0.5.
  """

  noise_density: float = 0.5

  def __post_init__(self):
    _check_density(self, self.noise_density, 0.5)

  def __call__(self, draws: Draws, length: int) -> np.ndarray:
    longest = length - 1
    shortest = max(1, round((1 - 2 * self.noise_density) * longest))
    shortest = min(shortest, longest)
    prefix_B1 = shortest + draws.integers(max(longest - shortest + 1, 1), 1)
    return np.arange(length) < prefix_B1


@dataclasses.dataclass(frozen=True)
class Everything:
  """Every token: the noise of deshuffling."""

  def __call__(self, draws: Draws, length: int) -> np.ndarray:
    return np.ones((draws.batch_size, length), bool)


@dataclasses.dataclass(frozen=True)
class Fragment:
  """One contiguous fragment (MASS, Song et al. 2019; code 779f22f).

  Attributes:
    noise_density: share of the tokens in the fragment.
    start_chance: chance that it begins with the row.
    end_chance: chance that it ends with the row; otherwise its place is
      uniform.
  """

  noise_density: float = 0.5
  start_chance: float = 0.2
  end_chance: float = 0.2

  def __post_init__(self):
    _check_density(self, self.noise_density)
    chances = self.start_chance, self.end_chance
    if min(chances) < 0 or sum(chances) > 1:
      raise UserError(
        f"Fragment has chances {chances} of start and end; they must not be "
        "negative and add up to at most 1."
      )

  def __call__(self, draws: Draws, length: int) -> np.ndarray:
    size = round(length * self.noise_density)
    where_B1 = draws.uniform(1)
    start_B1 = draws.integers(length - size + 1, 1)
    start_B1 = np.where(where_B1 < self.start_chance, 0, start_B1)
    at_end = where_B1 >= 1 - self.end_chance
    start_B1 = np.where(at_end, length - size, start_B1)
    places = np.arange(length)
    return (places >= start_B1) & (places < start_B1 + size)


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
    _check_density(self, self.noise_density)
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
