"""Blanks that ask for about as many words as they say (Roberts et al. 2020).

One span of a text is hidden; `_16_` stands in its place, and the targets are
the span. The demonstration of T5 fills such blanks of any length.
"""

from collections.abc import Mapping
import dataclasses
import functools
from typing import Any

import numpy as np

from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError

# The tokens that are kept for a blank.
_LONGEST_BLANK = 8
_SIMULATED = 64


@dataclasses.dataclass(frozen=True)
class Blanks(Corruption):
  """Hides one span of a text behind a blank that says about how long it is.

  The length of a span is drawn: a size N of `sizes`, then a number of tokens
  around `tokens_per_word` * N, uniform within a third of it. The blank says the
  size that is nearest to the words in the span.

  Attributes:
    sizes: The numbers of words that blanks ask for.
    tokens_per_word: The tokens of a word, about; only the drawn lengths depend
      on it.
    blank: The text in the place of the span; `{words}` is the size.
  """

  sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
  tokens_per_word: float = 1.4
  blank: str = " _{words}_"

  def __post_init__(self):
    object.__setattr__(self, "sizes", tuple(self.sizes))
    if not self.sizes or min(self.sizes) < 1:
      raise UserError(
        f"Blanks.sizes is {self.sizes!r}; give one or more numbers of words, 1 "
        "or more each."
      )
    if "{words}" not in self.blank:
      raise UserError(
        f"Blanks.blank is {self.blank!r}; it must have {{words}} in it, in the "
        "place of the number of words."
      )

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example, beside which a blank has room."""
    return lengths["inputs"] - _LONGEST_BLANK

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths without room, and vocabularies that mark no words.

    Args:
      lengths: tokens of `inputs` and `targets`, EOS counted.
      vocabulary: The vocabulary of the text.

    Returns:
      the share of examples whose targets will be cut, estimated from draws.

    Raises:
      UserError: the inputs are too short, a blank takes more tokens than are
        kept for it, or pieces do not show where words begin.
    """
    raw = self.raw_length(lengths)
    if raw < 2 * _LONGEST_BLANK:
      raise UserError(
        f"Inputs of {lengths['inputs']} tokens are too short for a blank; give "
        f"them at least {3 * _LONGEST_BLANK}."
      )
    if vocabulary.word_starts is None:
      raise UserError(
        "The pieces of the vocabulary do not show where words begin, which "
        "blanks count; use a vocabulary of SentencePiece, BPE or WordPiece."
      )
    for size in self.sizes:
      taken = len(vocabulary.encode(self.blank.format(words=size)))
      if taken > _LONGEST_BLANK:
        raise UserError(
          f"The blank {self.blank.format(words=size)!r} is {taken} tokens of "
          f"the vocabulary where {_LONGEST_BLANK} are kept; choose a shorter "
          "Blanks.blank."
        )
    sizes = self._spans(Draws(0, np.arange(_SIMULATED)), raw)[1]
    return float(np.mean(sizes + 1 > lengths["targets"]))

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Hides a span of each text.

    Args:
      tokens: integer ids without EOS, [B, length].
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the text.

    Returns:
      `inputs` and `targets`, without EOS.
    """
    tokens = np.asarray(tokens, np.int32)
    starts, sizes = self._spans(draws, tokens.shape[1])
    begins = vocabulary.word_starts
    encoded = functools.cache(
      lambda size: np.array(
        vocabulary.encode(self.blank.format(words=size)), np.int32
      )
    )
    inputs, targets = [], []
    for text, start, size in zip(tokens, starts, sizes, strict=True):
      span = text[start : start + size]
      words = max(int(np.count_nonzero(begins[span])), 1)
      asked = min(self.sizes, key=lambda n: abs(np.log(n / words)))
      inputs.append(
        np.concatenate([text[:start], encoded(asked), text[start + size :]])
      )
      targets.append(span)
    return {"inputs": Ragged.of(inputs), "targets": Ragged.of(targets)}

  def _spans(self, draws: Draws, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first token of each span, and its number of tokens."""
    longest = length - _LONGEST_BLANK
    fitting = [n for n in self.sizes if n * self.tokens_per_word < longest]
    allowed = np.array(fitting or [min(self.sizes)])
    chosen = allowed[draws.integers(len(allowed), 1)[:, 0]]
    spread = 1 + (2 * draws.uniform(1)[:, 0] - 1) / 3
    sizes = np.rint(chosen * self.tokens_per_word * spread).astype(np.int64)
    sizes = np.clip(sizes, 1, longest)
    starts = draws.integers((length - sizes + 1)[:, None], 1)[:, 0]
    return starts, sizes
