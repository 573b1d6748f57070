"""Marian's vocabularies, as OPUS-MT has them: pieces of two languages.

source.spm cuts what is read and target.spm what is written; one vocab.json
numbers the pieces of both. A language code that a text begins with (">>fra<<")
is one piece. Decoding leaves unknown pieces out. Source: `models/marian` of
`transformers`.

Special pieces that are written out in a text are text like any other, but in
prompts.
"""

from collections.abc import Mapping, Sequence
import os
from typing import TYPE_CHECKING

import numpy as np

from transformer_zoo import schemas
from transformer_zoo.data.vocabularies import llama_prompts
from transformer_zoo.data.vocabularies import sentencepiece_model
from transformer_zoo.data.vocabularies import tokenizer as tokenizer_lib
from transformer_zoo.data.vocabularies import tokenizer_classes
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import sentencepiece

_SPECIAL = ("<pad>", "</s>", "<unk>")
_OF_TARGETS = "target_vocab.json"
_SPACE = "▁"


class MarianPieces(tokenizer_lib.Tokenizer):
  """Encodes and decodes; the attributes are documented in `Tokenizer`."""

  extra_ids = 0
  lower_case = False

  def __init__(
    self, vocab: str, source: str, target: str, extra_ids: int | None
  ):
    """Reads the files.

    Args:
      vocab: vocab.json, from pieces to ids.
      source: SentencePiece model of what is read.
      target: SentencePiece model of what is written.
      extra_ids: sentinels, of which there can be none.

    Raises:
      UserError: a file is damaged, each language has numbers of its own, or an
        option beside them is not known here.
    """
    if extra_ids:
      raise UserError(
        f"extra_ids={extra_ids}: a Marian vocabulary has no sentinels; use "
        "extra_ids=0."
      )
    tokenizer_classes.check_options(os.path.dirname(vocab))
    of_targets = os.path.join(os.path.dirname(vocab), _OF_TARGETS)
    if os.path.exists(of_targets):
      raise UserError(
        f"{of_targets!r} numbers the pieces of targets by themselves; only "
        "Marian vocabularies whose two languages share vocab.json are read."
      )
    self._all_ids = ids = _read(vocab)
    self.size = 1 + max(ids.values())
    self.sentinel_ids = tokenizer_lib.find_sentinels(ids.get)
    self.special = tokenizer_lib.find_special(ids.get, self.sentinel_ids)
    self._pieces = {i: piece for piece, i in ids.items()}
    self._unwritten = self.special.unwritten | {self.special.unk}
    self._ids = {p: i for p, i in ids.items() if i not in self._unwritten}
    self._source, _ = sentencepiece_model.load(source, 0)
    self._target, _ = sentencepiece_model.load(target, 0)

  def encode(self, text: str) -> list[int]:
    """Returns the ids of a text that is read."""
    return self._encode(text, self._source)

  def encode_targets(self, text: str) -> list[int]:
    """Returns the ids of a text that is written."""
    return self._encode(text, self._target)

  def encode_prompt(self, text: str) -> list[int]:
    """Returns the ids of a text that is read, whose special pieces are none."""
    special = {piece: self._all_ids[piece] for piece in _SPECIAL}
    return llama_prompts.encode(text, "never", special, self.encode)

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of texts that are read."""
    return [self.encode(text) for text in texts]

  def encode_arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the ids of texts that are read, int32 [tokens] each."""
    return [np.array(self.encode(text), np.int32) for text in texts]

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text of the ids, all below `size`."""
    written = [
      self._pieces[i]
      for i in ids
      if i in self._pieces and i not in self._unwritten
    ]
    # Pieces that target.spm lacks come back as they are.
    return self._target.DecodePieces(written).replace(_SPACE, " ").strip()

  def pieces(self) -> list[str | None]:
    """Returns the piece of each id, None for those without."""
    return [self._pieces.get(i) for i in range(self.size)]

  def _encode(
    self, text: str, model: "sentencepiece.SentencePieceProcessor"
  ) -> list[int]:
    code, text = _split_off_code(text)
    pieces = [*code, *model.EncodeAsPieces(text)]
    return [self._ids.get(piece, self.special.unk) for piece in pieces]


def _split_off_code(text: str) -> tuple[list[str], str]:
  """Returns the language code that a text begins with, if any, and the rest."""
  code, end, rest = text.partition("<<")
  if end and code.startswith(">>"):
    return [code + end], rest
  return [], text


def _read(vocab: str) -> Mapping[str, int]:
  """Returns the id of each piece."""
  ids = schemas.read(vocab, schemas.IDS)
  if absent := [piece for piece in _SPECIAL if piece not in ids]:
    raise UserError(
      f"The Marian vocabulary {vocab!r} lacks {', '.join(absent)}."
    )
  return ids
