"""Masked language modelling: BERT and its family; examples of an encoder."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.fixed_number import FixedNumber
from transformer_zoo.corruption.masks.noise_masks import check_words
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.rewrites.replacement import Replacement
from transformer_zoo.errors import UserError

# [CLS] and [SEP], also where the vocabulary has none.
_FRAME = 2


@dataclasses.dataclass(frozen=True)
class Masking:
  """Hides tokens of rows that stand as the encoder will read them.

  Used by all objectives that hide tokens: of texts, sentence pairs and packed
  sentences.

  Attributes:
    noise: a mask of `noise_masks`, or `WordSpans`; special tokens stay.
    replacement: The replacement of the masked tokens.
  """

  noise: Callable[..., np.ndarray] = dataclasses.field(
    default_factory=FixedNumber
  )
  replacement: Replacement = dataclasses.field(default_factory=Replacement)

  def __post_init__(self):
    if not callable(self.noise):
      raise UserError(
        f"Masking.noise is {self.noise!r}; it must be a noise mask such as "
        "@FixedNumber()."
      )
    if not isinstance(self.replacement, Replacement):
      raise UserError(
        f"Masking.replacement is {self.replacement!r}; it must be "
        "@Replacement()."
      )

  def check(self, vocabulary: Any) -> None:
    """Refuses a vocabulary that lacks the mask, or words where they count."""
    self.replacement.check(vocabulary)
    check_words(self.noise, vocabulary)

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> tuple[np.ndarray, np.ndarray]:
    """Hides tokens.

    Args:
      tokens: int32 [B, L] with special tokens, shorter rows padded.
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the tokens.

    Returns:
      the rows as the encoder reads them, int32 [B, L], and True for the tokens
      it predicts, the kept ones too, bool [B, L].
    """
    rows = Rows(tokens, vocabulary)
    hidden = self.noise(draws, tokens.shape[1], rows) & rows.allowed
    return self.replacement(tokens, hidden, draws, vocabulary), hidden


@dataclasses.dataclass(frozen=True)
class MaskedLanguageModel(Corruption):
  """`[CLS] text [SEP]` with masked tokens (BERT without sentence pairs).

  The special tokens are those that the vocabulary has; room is left for both.

  Attributes:
    masking: The choice of masked tokens and their replacement.
  """

  masking: Masking = dataclasses.field(default_factory=Masking)
  layout = "encoder"

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example, of whole rows with both frames."""
    return lengths["inputs"] - _FRAME

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths and vocabularies that leave nothing to predict.

    Returns:
      the share of examples whose targets will be cut: none.

    Raises:
      UserError: the inputs are too short, the targets are not as long as they,
        or the vocabulary lacks what hides a token.
    """
    check_encoder_lengths(lengths, _FRAME + 2)
    self.masking.check(vocabulary)
    return 0.0

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Hides tokens of texts of one length.

    Args:
      tokens: int32 [B, length], no special tokens.
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `inputs`, `targets` (the text) and `weights` (1 for masked tokens).
    """
    targets = special_tokens.framed(np.asarray(tokens, np.int32), vocabulary)
    inputs, hidden = self.masking(targets, draws, vocabulary)
    return encoder_features(inputs, targets, hidden)


@dataclasses.dataclass(frozen=True)
class NextTokens(Corruption):
  """`[CLS] text [SEP]` of which each token predicts the next one.

  The language model that reads from left to right, over an encoder that does
  (Devlin et al. 2019, section 5.1, "LTR & No NSP").
  """

  layout = "encoder"

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """As `MaskedLanguageModel.raw_length`."""
    return lengths["inputs"] - _FRAME

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """As `MaskedLanguageModel.check`; no vocabulary is refused."""
    del vocabulary
    check_encoder_lengths(lengths, _FRAME + 2)
    return 0.0

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Returns texts of one length with the token that follows each.

    Args:
      tokens: int32 [B, length], no special tokens.
      draws: source of randomness, of which nothing is drawn.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `inputs`, `targets` and `weights`, which are 0 at the last token.
    """
    del draws
    inputs = special_tokens.framed(np.asarray(tokens, np.int32), vocabulary)
    weights = np.ones(inputs.shape, bool)
    weights[:, -1] = False
    return encoder_features(inputs, np.roll(inputs, -1, axis=1), weights)


class PreviousTokens(NextTokens):
  """`[CLS] text [SEP]` of which each token predicts the one before it.

  The language model that reads from right to left, UniLM's fourth mask (Dong et
  al. 2019, section 2.3) and the backward half of ELMo (Peters et al. 2018).
  """

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """As `NextTokens.__call__`, with weights of 0 at the first token."""
    del draws
    inputs = special_tokens.framed(np.asarray(tokens, np.int32), vocabulary)
    weights = np.ones(inputs.shape, bool)
    weights[:, 0] = False
    return encoder_features(inputs, np.roll(inputs, 1, axis=1), weights)


def encoder_features(
  inputs: np.ndarray, targets: np.ndarray, hidden: np.ndarray
) -> dict[str, Ragged]:
  """Returns the features of whole rows, each [B, L]."""
  return {
    "inputs": Ragged.full(inputs),
    "targets": Ragged.full(targets),
    "weights": Ragged.full(hidden.astype(np.int32)),
  }


def check_encoder_lengths(lengths: Mapping[str, int], shortest: int) -> None:
  """Raises UserError unless inputs and targets are one row of the encoder."""
  inputs, targets = lengths["inputs"], lengths["targets"]
  if inputs != targets:
    raise UserError(
      f"An encoder predicts tokens in their places, so inputs and targets are "
      f"of one length; they are {inputs} and {targets}."
    )
  if inputs < shortest:
    raise UserError(
      f"Inputs of {inputs} tokens are too short for an encoder's example; give "
      f"them at least {shortest}."
    )
