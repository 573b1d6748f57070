"""What a noise mask may ask about the texts of a batch."""

import dataclasses
import functools
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
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
      UserError: the vocabulary does not tell.
    """
    starts = word_starts(self.vocabulary)[self.tokens] | ~self.allowed
    starts[:, 1:] |= ~self.allowed[:, :-1]
    starts[:, :1] = True
    return starts


def word_starts(vocabulary: Any) -> np.ndarray:
  """Returns True for each id that a word may begin with, bool [size].

  Raises:
    UserError: the vocabulary does not tell.
  """
  if vocabulary.word_starts is None:
    raise UserError(
      "Noise on whole words needs a vocabulary that tells where words begin; "
      "set whole_words = False or use another vocabulary."
    )
  return vocabulary.word_starts
