"""The bytes of UTF-8 as a vocabulary, as ByT5 has it.

Ids as `seqio.ByteVocabulary`: 0 padding, 1 EOS, 2 unknown, then the bytes
(3 to 258), then the extra ids. ByT5 has 125 of them, for an embedding of 384
rows, and yet was trained with the last 100 bytes as sentinels (Xue et al. 2021,
section 3.1): `Vocabulary("bytes", extra_ids=0)` has those, 258 to 159.
"""

from collections.abc import Sequence

import numpy as np

from transformer_zoo.data.vocabularies.tokenizer import SpecialIds
from transformer_zoo.data.vocabularies.tokenizer import Tokenizer

_FIRST = 3
_END = _FIRST + 256
_REUSED = 100
DEFAULT_EXTRA_IDS = 125


class BytesOfText(Tokenizer):
  """Encodes and decodes; the attributes are documented in `Tokenizer`."""

  lower_case = False

  def __init__(self, extra_ids: int | None):
    """Says how many ids follow the bytes; None for ByT5's 125."""
    self.extra_ids = DEFAULT_EXTRA_IDS if extra_ids is None else extra_ids
    self.size = _END + self.extra_ids
    count = self.extra_ids or _REUSED
    self.sentinel_ids = self.size - 1 - np.arange(count, dtype=np.int32)
    mask = int(self.sentinel_ids[0])
    self.special = SpecialIds(pad=0, eos=1, unk=2, mask=mask)

  def encode(self, text: str) -> list[int]:
    """Returns the byte ids of `text`."""
    return self.encode_arrays([text])[0].tolist()

  def encode_with_places(
    self, text: str
  ) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the byte ids of `text`, and the character that each is of."""
    places = [
      (i, i + 1) for i, character in enumerate(text) for _ in character.encode()
    ]
    return self.encode(text), places

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the byte ids of each text."""
    return [self.encode(text) for text in texts]

  def encode_arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the byte ids of each text, int32 [bytes]."""
    found = [np.frombuffer(text.encode("utf-8"), np.uint8) for text in texts]
    return [array.astype(np.int32) + _FIRST for array in found]

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text of the byte ids; other ids and broken bytes go."""
    found = bytes(i - _FIRST for i in ids if _FIRST <= i < _END)
    return found.decode("utf-8", errors="ignore")

  def pieces(self) -> list[str | None]:
    """Returns the character of each byte id that is ASCII."""
    found = [chr(byte) if byte < 128 else None for byte in range(256)]
    return [None] * _FIRST + found + [None] * (self.size - _END)
