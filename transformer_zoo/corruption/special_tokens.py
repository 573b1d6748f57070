"""Ids that are no text: never hidden, never drawn as noise."""

from typing import Any

import numpy as np

from transformer_zoo.errors import UserError

# Unknown text is text: it may be hidden, as in BERT.
_NAMES = ("pad_id", "bos_id", "eos_id", "cls_id", "sep_id", "mask_id")


def is_special(vocabulary: Any) -> np.ndarray:
  """Returns True for each id that stands for no text, bool [size]."""
  special = np.zeros(vocabulary.size, bool)
  ids = [getattr(vocabulary, name) for name in _NAMES]
  special[[i for i in ids if i is not None]] = True
  special[np.asarray(vocabulary.sentinel_ids, np.int64)] = True
  return special


def ordinary_ids(vocabulary: Any, *, sentinels: bool = False) -> np.ndarray:
  """Returns the ids that a random token is drawn from, int32, ascending.

  Args:
    vocabulary: The vocabulary of the text.
    sentinels: True to draw sentinels too, as the t5 package does.
  """
  ordinary = ~is_special(vocabulary)
  if vocabulary.unk_id is not None:
    ordinary[vocabulary.unk_id] = False
  if sentinels:
    ordinary[np.asarray(vocabulary.sentinel_ids, np.int64)] = True
  return np.flatnonzero(ordinary).astype(np.int32)


def mask_id(vocabulary: Any, user: Any) -> np.int32:
  """Returns the id that hides a token.

  Raises:
    UserError: the vocabulary has none; `user` is what needs it.
  """
  if vocabulary.mask_id is None:
    raise UserError(
      f"{user} hides tokens behind a mask, and the vocabulary has neither a "
      "mask token nor sentinels; use one that has, or give it extra_ids."
    )
  return np.int32(vocabulary.mask_id)


def framed(tokens_BL: np.ndarray, vocabulary: Any) -> np.ndarray:
  """Puts `[CLS]` before and `[SEP]` behind, as far as the vocabulary has them.

  Args:
    tokens_BL: int32.
    vocabulary: A vocabulary whose `cls_id` and `sep_id` may be None.

  Returns:
    int32 [B, L to L + 2].
  """
  rows = len(tokens_BL)
  first, last = (
    np.full((rows, 0 if token is None else 1), token or 0, np.int32)
    for token in (vocabulary.cls_id, vocabulary.sep_id)
  )
  return np.concatenate([first, tokens_BL, last], axis=1)


def separator_id(vocabulary: Any) -> int:
  """Returns the id between segments: EOS where the vocabulary has no [SEP]."""
  if vocabulary.sep_id is None:
    return vocabulary.eos_id
  return vocabulary.sep_id
