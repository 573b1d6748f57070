"""XLNet: tokens that are predicted in a drawn order (Yang et al. 2019)."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import check_encoder_lengths
from transformer_zoo.corruption.masked_lm import encoder_features
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.masks.word_spans import WordSpans
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.rewrites.replacement import Replacement
from transformer_zoo.errors import UserError

# [CLS] and [SEP], also where the vocabulary has none.
_FRAME = 2
_NOTHING_HIDDEN = Replacement(masked=0.0, random=0.0, kept=1.0)


def _spans(density: float) -> WordSpans:
  """Spans of up to five tokens, a length n in proportion to 1 / n."""
  return WordSpans(
    noise_density=density,
    weights=tuple(1 / n for n in range(1, 6)),
    whole_words=False,
  )


@dataclasses.dataclass(frozen=True)
class PermutationLanguageModel(Corruption):
  """`[CLS] text [SEP]`, one token in `partial` of which is predicted.

  The text is not changed. Predicted tokens are numbered by a drawn order, in
  which each sees those before it; the others, which stand at the beginning of
  every order, are seen by all (partial prediction, section 2.3).

  Attributes:
    partial: K, the inverse of the share that is predicted; 6 and 7 in the
      paper.
    noise: The choice of predicted tokens; spans of 1 to 5 tokens if None.
  """

  partial: float = 6.0
  noise: Callable[..., np.ndarray] | None = None
  layout = "encoder"

  def __post_init__(self):
    if not self.partial > 1:
      raise UserError(
        f"PermutationLanguageModel.partial is {self.partial!r}; one token in "
        "so many is predicted, so it must be more than 1."
      )

  @property
  def _masking(self) -> Masking:
    """The choice of predicted tokens, none of which is replaced."""
    noise = self.noise or _spans(1 / self.partial)
    return Masking(noise, _NOTHING_HIDDEN)

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example, of whole rows with both frames."""
    return lengths["inputs"] - _FRAME

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """As `MaskedLanguageModel.check`."""
    check_encoder_lengths(lengths, _FRAME + 2)
    self._masking.check(vocabulary)
    return 0.0

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Chooses the predicted tokens of texts of one length, and their order.

    Args:
      tokens: int32 [B, length], no special tokens.
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `inputs`, `targets` (both the text), `weights`, and `orders`: numbers from
      0 on of the predicted tokens, -1 of the others.
    """
    targets = special_tokens.framed(np.asarray(tokens, np.int32), vocabulary)
    _, predicted = self._masking(targets, draws, vocabulary)
    drawn = np.where(predicted, draws.uniform(targets.shape[1]), 2.0)
    numbers = np.argsort(np.argsort(drawn, axis=1, kind="stable"), axis=1)
    orders = np.where(predicted, numbers, -1).astype(np.int32)
    return encoder_features(targets, targets, predicted) | {
      "orders": Ragged.full(orders)
    }
