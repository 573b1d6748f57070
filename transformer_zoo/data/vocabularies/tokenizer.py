"""What every kind of vocabulary gives, and which class reads which kind."""

from collections.abc import Sequence
import functools
import threading
from typing import Protocol

import numpy as np

from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies.special_ids import SpecialIds
from transformer_zoo.errors import UserError

_load_lock = threading.Lock()


class Tokenizer(Protocol):
  """What every kind of vocabulary gives; `Vocabulary` tells what it means."""

  size: int
  extra_ids: int
  lower_case: bool
  special: SpecialIds
  sentinel_ids: np.ndarray

  def encode(self, text: str) -> list[int]:
    """Returns the ids of a text."""

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of texts."""

  def encode_arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the same as int32 [tokens] each."""

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text of ids, all below `size`."""

  def pieces(self) -> list[str | None]:
    """Returns what each id is written as; None for what is no text."""


def load(
  found: files.VocabularyFiles, extra_ids: int | None, lower_case: bool | None
) -> Tokenizer:
  """Reads the files of a vocabulary, once for all who ask.

  Args:
    found: the files.
    extra_ids: The number of sentinels, as in `Vocabulary`.
    lower_case: True to lower the case, as in `Vocabulary`.

  Raises:
    UserError: they are damaged, or the settings do not fit their kind.
  """
  with _load_lock:
    return _load(found, extra_ids, lower_case)


@functools.lru_cache(maxsize=16)
def _load(
  found: files.VocabularyFiles, extra_ids: int | None, lower_case: bool | None
) -> Tokenizer:
  if extra_ids is not None and extra_ids < 0:
    raise UserError(f"extra_ids={extra_ids} is negative; use 0 for none.")
  # A run reads one kind of vocabulary and imports that one.
  if found.kind == "sentencepiece":
    from transformer_zoo.data.vocabularies import sentencepiece_model

    return sentencepiece_model.SentencePieceModel(
      *found.paths, extra_ids, bool(lower_case)
    )
  if found.kind == "wordpiece":
    from transformer_zoo.data.vocabularies import tokenizers_models

    return tokenizers_models.wordpiece(*found.paths, extra_ids, lower_case)
  if lower_case:
    raise UserError(
      f"lower_case is for WordPiece and SentencePiece, not for {found.kind!r}; "
      "leave it out."
    )
  if found.kind == "marian":
    from transformer_zoo.data.vocabularies import marian_pieces

    return marian_pieces.MarianPieces(*found.paths, extra_ids)
  if found.kind in ("byte_bpe", "tokenizer_json"):
    from transformer_zoo.data.vocabularies import tokenizers_models

    if found.kind == "byte_bpe":
      return tokenizers_models.byte_level_bpe(*found.paths, extra_ids)
    return tokenizers_models.tokenizer_json(*found.paths, extra_ids)
  from transformer_zoo.data.vocabularies import bytes_of_text

  return bytes_of_text.BytesOfText(extra_ids)
