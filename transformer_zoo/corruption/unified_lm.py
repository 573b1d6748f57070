"""UniLM: one encoder, four ways to see the text (Dong et al. 2019)."""

from collections.abc import Mapping, Sequence
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
from transformer_zoo.errors import UserError

# The values of the feature `attention_kind`; who sees whom is drawn by
# `transformer_zoo.modules.attention.masks.attention_kind_mask`.
ATTENTION_KINDS = (
  "bidirectional",
  "sequence_to_sequence",
  "left_to_right",
  "right_to_left",
)
# Token types of the first and the second segment, by kind: they tell the model
# which objective it is at (UniLM's code, `new_segment_ids`).
TOKEN_TYPES = np.array([(0, 1), (4, 5), (2, 2), (3, 3)], np.int32)
# [CLS] and two [SEP], also where the vocabulary has none.
_FRAME = 3


def cloze() -> Masking:
  """UniLM's: 15 %, one in five times a bigram or a trigram."""
  return Masking(WordSpans(weights=(0.8, 0.1, 0.1), whole_words=False))


def checked_weights(name: str, weights: Sequence[float]) -> tuple[float, ...]:
  """Returns the weights of `ATTENTION_KINDS` as a tuple.

  Raises:
    UserError: There are not as many, or none is positive.
  """
  weights = tuple(weights)
  known = len(weights) == len(ATTENTION_KINDS)
  if not known or min(weights) < 0 or sum(weights) <= 0:
    raise UserError(
      f"{name}.weights is {weights}; give a weight for each of "
      f"{', '.join(ATTENTION_KINDS)}, not negative, of which one is positive."
    )
  return weights


def draw_kinds(weights: Sequence[float], draws: Draws) -> np.ndarray:
  """Returns the attention kind of each row, int32 [B]."""
  chances = np.cumsum(weights)[:-1] / sum(weights)
  kinds = np.searchsorted(chances, draws.uniform(1)[:, 0], side="right")
  return kinds.astype(np.int32)


@dataclasses.dataclass(frozen=True)
class UnifiedLanguageModel(Corruption):
  """`[CLS] first [SEP] second [SEP]` with masked tokens and an attention kind.

  The text is cut in two at a uniform place, so the second segment always
  follows the first; next-sentence prediction on the bidirectional part is among
  the examples of `UnifiedSentences`.

  Attributes:
    masking: The choice of masked tokens and their replacement: by default the
      paper's cloze, 15 %, one in five times a bigram or a trigram, then
      80/10/10.
    weights: The weights of `ATTENTION_KINDS`, in that order; they need not add
      up to 1.
  """

  masking: Masking = dataclasses.field(default_factory=cloze)
  weights: Sequence[float] = (2, 2, 1, 1)
  layout = "encoder"

  def __post_init__(self):
    weights = checked_weights(type(self).__name__, self.weights)
    object.__setattr__(self, "weights", weights)

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example, of whole rows with all frames."""
    return lengths["inputs"] - _FRAME

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """As `MaskedLanguageModel.check`."""
    check_encoder_lengths(lengths, _FRAME + 2)
    self.masking.check(vocabulary)
    return 0.0

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Cuts texts of one length in two and hides tokens.

    Args:
      tokens: int32 [B, length], length at least 2, no special tokens.
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `inputs`, `targets`, `weights`, `token_types`, and `attention_kind`, one
      number per example.
    """
    tokens = np.asarray(tokens, np.int32)
    kinds = draw_kinds(self.weights, draws)
    cut_B1 = 1 + draws.integers(tokens.shape[1] - 1, 1)
    parted, second = _parted(tokens, cut_B1, vocabulary)
    targets = special_tokens.framed(parted, vocabulary)
    # [CLS] belongs to the first segment, the last [SEP] to the second.
    before = int(vocabulary.cls_id is not None)
    behind = targets.shape[1] - second.shape[1] - before
    second = np.pad(second, ((0, 0), (before, 0)))
    second = np.pad(second, ((0, 0), (0, behind)), constant_values=True)
    inputs, hidden = self.masking(targets, draws, vocabulary)
    types = TOKEN_TYPES[kinds[:, None], second.astype(np.int8)]
    return encoder_features(inputs, targets, hidden) | {
      "token_types": Ragged.full(types),
      "attention_kind": Ragged.full(kinds[:, None]),
    }


def _parted(
  tokens: np.ndarray, cut_B1: np.ndarray, vocabulary: Any
) -> tuple[np.ndarray, np.ndarray]:
  """Puts `[SEP]` where each row is cut, if the vocabulary has it.

  Returns:
    the tokens, and True for those behind the cut.
  """
  rows, length = tokens.shape
  if vocabulary.sep_id is None:
    return tokens, np.arange(length) >= cut_B1
  places = np.arange(length + 1)
  second = places > cut_B1
  parted = np.take_along_axis(tokens, places - (places >= cut_B1), axis=1)
  np.put_along_axis(parted, cut_B1, vocabulary.sep_id, axis=1)
  return parted, second
