"""Noise on spans that a tagger finds: named entities or noun phrases."""

from collections.abc import Callable, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.fixed_number import budgets
from transformer_zoo.corruption.masks.noise_masks import check_density
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.errors import UserError

# (token ids of a text, its vocabulary) -> (first token, token behind the last
# one) of each span.
Tagger = Callable[[np.ndarray, Any], Sequence[tuple[int, int]]]


@dataclasses.dataclass(frozen=True)
class TaggedSpans:
  """Spans of a tagger and whole words until a budget of tokens is used up.

  Half of the time a span of the tagger, else a word, each uniformly among those
  that are left (Joshi et al. 2020, section 5.1, for named entities and noun
  phrases); words alone where there is no span left.

  Attributes:
    tagger: The function that says where spans are; None is refused.
    noise_density: share of the tokens of a row, special ones counted, that are
      noise at most.
    share: How often a span of the tagger is taken.
    whole_words: Whether words are found by the vocabulary; otherwise every
      token is a word.
  """

  tagger: Tagger | None = None
  noise_density: float = 0.15
  share: float = 0.5
  whole_words: bool = True

  def __post_init__(self):
    check_density(self, self.noise_density)
    check_density(self, self.share, name="share")
    if not callable(self.tagger):
      raise UserError(
        f"TaggedSpans.tagger is {self.tagger!r}; it must be a function of "
        "token ids and vocabulary that returns (first, behind the last) of "
        "each span: bind one of a module that --module names."
      )

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    if rows is None:
      raise UserError(
        "TaggedSpans needs the text; use it in @Masking(), of an encoder's "
        "objective."
      )
    noise = np.rint(np.round(rows.sizes * self.noise_density, 6))
    left = budgets(noise, rows.allowed, None)
    starts = np.ones_like(rows.allowed)
    if self.whole_words:
      starts = rows.word_starts
    # Two numbers a span; a row takes at most as many spans as it has tokens.
    uniform = draws.uniform(2 * length)
    mask = np.zeros(rows.allowed.shape, bool)
    for row, allowed in enumerate(rows.allowed):
      spans = [
        (int(begin), int(end))
        for begin, end in self.tagger(rows.tokens[row], rows.vocabulary)
        if 0 <= begin < end <= length and allowed[begin:end].all()
      ]
      begins = np.append(np.flatnonzero(starts[row]), length)
      words = [
        (int(begin), int(end))
        for begin, end in zip(begins[:-1], begins[1:], strict=True)
        if allowed[begin:end].all()
      ]
      _take(mask[row], int(left[row]), spans, words, uniform[row], self.share)
    return mask


def _take(mask, left, spans, words, uniform, share) -> None:
  """Marks spans in a row until what is left fits none."""
  pools = [list(spans), list(words)]
  for choice, place in zip(uniform[::2], uniform[1::2], strict=True):
    pools = [
      [
        (begin, end)
        for begin, end in pool
        if end - begin <= left and not mask[begin:end].any()
      ]
      for pool in pools
    ]
    tagged, plain = pools
    takes_tagged = tagged and (choice < share or not plain)
    pool = tagged if takes_tagged else plain
    if not pool:
      return
    begin, end = pool[int(place * len(pool))]
    mask[begin:end] = True
    left -= end - begin
