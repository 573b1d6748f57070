"""Noise masks: which tokens of a batch are corrupted (True is noise).

A mask is a frozen dataclass; called with a source of draws, the length of the
rows and, where it is known, the text (`Rows`), it returns a boolean array
[B, length]. Row b is a function of what example b draws and of its text, and of
nothing else in the batch. Most masks do not look at the text: who uses them
leaves special tokens out.
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Rows:
  """Texts with special tokens in place, of one length or padded to it.

  Attributes:
    tokens: int32 [B, L].
    vocabulary: The vocabulary of the tokens.
  """

  tokens: np.ndarray
  vocabulary: Any

  @functools.cached_property
  def allowed(self) -> np.ndarray:
    """True where a token may be noise, bool [B, L]: it is not special."""
    return ~special_tokens.is_special(self.vocabulary)[self.tokens]

  @property
  def sizes(self) -> np.ndarray:
    """Tokens of each row that are no padding, special ones counted, [B]."""
    return np.count_nonzero(self.tokens != self.vocabulary.pad_id, axis=1)

  @property
  def word_starts(self) -> np.ndarray:
    """True where a word begins, bool [B, L]; a special token is a word.

    A row begins with a word even where it begins within one.

    Raises:
      UserError: The vocabulary does not show it.
    """
    starts = word_starts(self.vocabulary)[self.tokens] | ~self.allowed
    starts[:, 1:] |= ~self.allowed[:, :-1]
    starts[:, :1] = True
    return starts


def word_starts(vocabulary: Any) -> np.ndarray:
  """Returns True for each id that a word may begin with, bool [size].

  Raises:
    UserError: The vocabulary does not show it.
  """
  if vocabulary.word_starts is None:
    raise UserError(
      "Noise on whole words needs a vocabulary that shows where words begin; "
      "set whole_words = False or use another vocabulary."
    )
  return vocabulary.word_starts


def check_words(noise: object, vocabulary: Any) -> None:
  """Raises UserError if `noise` is on whole words that are not known."""
  if getattr(noise, "whole_words", False):
    word_starts(vocabulary)


def check_density(
  mask: object,
  density: float,
  highest: float = 1.0,
  *,
  name: str = "noise_density",
) -> None:
  """Raises UserError unless `density` is above 0 and at most `highest`."""
  is_number = isinstance(density, int | float) and not isinstance(density, bool)
  if not is_number or not 0 < density <= highest:
    raise UserError(
      f"{type(mask).__name__}.{name} is {density!r}; it must be a number above "
      f"0 and at most {highest:g}."
    )


@dataclasses.dataclass(frozen=True)
class Iid:
  """Each token is noise on its own (t5 `iid_noise_mask`).

  Attributes:
    noise_density: chance of a token to be noise.
  """

  noise_density: float = 0.15

  def __post_init__(self):
    check_density(self, self.noise_density)

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    del rows
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
    check_density(self, self.noise_density)
    mean = self.mean_noise_span_length
    is_number = isinstance(mean, int | float) and not isinstance(mean, bool)
    if not is_number or not mean >= 1:
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
    0.5). t5's mask rounds in 32 bits, and at some lengths (190, 350, 390 ... at
    density 0.15) has a noise token more than its own lengths say; ours has not.
    """
    noise = min(max(round(length * self.noise_density), 1), length - 1)
    spans = max(1, round(noise / self.mean_noise_span_length))
    return noise, min(spans, noise, length - noise)

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    del rows
    batch_size = draws.batch_size
    if length < 2:
      return np.zeros((batch_size, length), bool)
    num_noise, num_spans = self.counts(length)
    noise_ends = _segment_ends(draws, num_noise, num_spans)
    other_ends = _segment_ends(draws, length - num_noise, num_spans)
    # Span k of noise begins after k + 1 segments of the rest and k of noise.
    noise_starts = np.pad(noise_ends, ((0, 0), (1, 0)))[:, :-1]
    steps = np.zeros((batch_size, length + 1), np.int8)
    row = np.arange(batch_size)[:, None]
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
    check_density(self, self.noise_density)
    if not 1 <= self.min_span_length <= self.max_span_length:
      raise UserError(
        f"RegularSpans has span lengths from {self.min_span_length} to "
        f"{self.max_span_length}; they must be at least 1 and in order."
      )

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    del rows
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
    check_density(self, self.noise_density, 0.5)

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    del rows
    longest = length - 1
    shortest = max(1, round((1 - 2 * self.noise_density) * longest))
    shortest = min(shortest, longest)
    prefix_B1 = shortest + draws.integers(max(longest - shortest + 1, 1), 1)
    return np.arange(length) < prefix_B1


@dataclasses.dataclass(frozen=True)
class Everything:
  """Every token: the noise of deshuffling."""

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    del rows
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
    check_density(self, self.noise_density)
    chances = self.start_chance, self.end_chance
    if min(chances) < 0 or sum(chances) > 1:
      raise UserError(
        f"Fragment has chances {chances} of start and end; they must not be "
        "negative and add up to at most 1."
      )

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    del rows
    size = round(length * self.noise_density)
    where_B1 = draws.uniform(1)
    start_B1 = draws.integers(length - size + 1, 1)
    start_B1 = np.where(where_B1 < self.start_chance, 0, start_B1)
    at_end = where_B1 >= 1 - self.end_chance
    start_B1 = np.where(at_end, length - size, start_B1)
    places = np.arange(length)
    return (places >= start_B1) & (places < start_B1 + size)
