"""Targets of word vectors: a token by its context, and the other way around.

CBOW and skip-gram (Mikolov et al. 2013, sections 3.1 and 3.2); nothing is
hidden, because the model of a token reads the others alone, or nothing else.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import masked_lm
from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class OwnTokens(Corruption):
  """Texts whose tokens are predicted in their own places (CBOW).

  The encoder has to read the other tokens alone, as `ContextMean` does.
  """

  layout = "encoder"

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """As `MaskedLanguageModel.raw_length`."""
    return masked_lm.MaskedLanguageModel().raw_length(lengths)

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """As `MaskedLanguageModel.check`; no vocabulary is refused."""
    del vocabulary
    masked_lm.check_encoder_lengths(lengths, 4)
    return 0.0

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Returns texts of one length as `inputs` and `targets`.

    Args:
      tokens: int32 [B, length], no special tokens.
      draws: source of randomness, of which nothing is drawn.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `inputs`, `targets` and `weights`, which are 0 at special tokens.
    """
    del draws
    inputs = special_tokens.framed(np.asarray(tokens, np.int32), vocabulary)
    text = ~special_tokens.is_special(vocabulary)[inputs]
    return masked_lm.encoder_features(inputs, inputs, text)


@dataclasses.dataclass(frozen=True)
class ContextTokens(Corruption):
  """Texts each of whose tokens predicts one of those around it (skip-gram).

  The distance is drawn as the public code has it: a window of 1 to `window`
  tokens first, then one of the tokens in it, so that near ones come more often.

  Attributes:
    window: The largest distance, in tokens.
  """

  window: int = 5

  layout = "encoder"

  def __post_init__(self):
    if self.window < 1:
      raise UserError(
        f"ContextTokens.window is {self.window}; it must be at least 1 token"
      )

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """As `MaskedLanguageModel.raw_length`."""
    return OwnTokens().raw_length(lengths)

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """As `MaskedLanguageModel.check`; no vocabulary is refused."""
    return OwnTokens().check(lengths, vocabulary)

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Returns texts of one length with a token around each.

    Args:
      tokens: int32 [B, length], no special tokens.
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `inputs`, `targets` and `weights`, which are 0 where a token or its target
      is special or the target is outside of the row.
    """
    inputs = special_tokens.framed(np.asarray(tokens, np.int32), vocabulary)
    length = inputs.shape[1]
    first, second = np.split(draws.uniform(2 * length), 2, axis=1)
    widths = 1 + (first * self.window).astype(np.int64)
    # 0 to 2 * widths - 1: the distances below 0, then those above.
    chosen = (second * 2 * widths).astype(np.int64)
    distances = np.where(chosen < widths, chosen - widths, chosen - widths + 1)
    places = np.arange(length) + distances
    inside = (places >= 0) & (places < length)
    targets = np.take_along_axis(inputs, np.clip(places, 0, length - 1), axis=1)
    special = special_tokens.is_special(vocabulary)
    weights = inside & ~special[inputs] & ~special[targets]
    return masked_lm.encoder_features(inputs, targets, weights)
