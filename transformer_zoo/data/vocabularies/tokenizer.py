"""The base of all kinds of vocabularies, and their special ids."""

from collections.abc import Callable, Sequence
import dataclasses

import numpy as np

SENTINEL = "<extra_id_"  # as every sentinel's name begins
_PAD = ("<pad>", "[PAD]")
_EOS = ("</s>", "<|endoftext|>", "<eos>", "<|end_of_text|>")
_UNK = ("<unk>", "[UNK]")
_BOS = ("<s>", "<|endoftext|>", "<bos>", "<|begin_of_text|>")
_CLS = ("[CLS]", "<cls>")
_SEP = ("[SEP]", "<sep>")
_MASK = ("[MASK]", "<mask>")


@dataclasses.dataclass(frozen=True)
class SpecialIds:
  """The special ids of a vocabulary; None where it lacks one.

  Attributes:
    pad: fills rows. A vocabulary without padding (GPT-2's) has EOS here, unless
      the config.json of an encoder-decoder beside it says another id.
    eos: ends a text. It is the separator where nothing else ends one (BERT,
      ALBERT), as in `seqio.BertWordPieceVocabulary`.
    unk: stands for what the vocabulary cannot spell.
    bos: begins a text.
    cls: stands before the text of an encoder.
    sep: stands behind each of its segments.
    mask: hides a token; the first sentinel where there is no such piece.
  """

  pad: int
  eos: int | None
  unk: int | None
  bos: int | None = None
  cls: int | None = None
  sep: int | None = None
  mask: int | None = None

  @property
  def unwritten(self) -> frozenset[int]:
    """The ids that are no part of a decoded text: all but `unk`, `mask`."""
    ids = {self.pad, self.eos, self.bos, self.cls, self.sep}
    return frozenset(ids - {None, self.unk})


def find_special(
  id_of: Callable[[str], int | None],
  sentinel_ids: np.ndarray,
  *,
  pad: int | None = None,
  eos: int | None = None,
  unk: int | None = None,
  bos: int | None = None,
  cls: int | None = None,
  sep: int | None = None,
  mask: int | None = None,
  filler: int | None = None,
) -> SpecialIds:
  """Returns the special ids of a vocabulary.

  Where there is a mask but no [CLS], `<s>` and `</s>` take the places of [CLS]
  and [SEP] (RoBERTa, BART, XLM-R).

  Args:
    id_of: the id of a piece, None where it is absent.
    sentinel_ids: The sentinel ids of the vocabulary, int [sentinels].
    pad: The padding id that the file itself states, which comes before the
      names. The other ids are given the same way.
    eos: the same.
    unk: the same.
    bos: the same.
    cls: the same.
    sep: the same.
    mask: the same.
    filler: fills rows where there is no padding; EOS if None.
  """

  def first(names):
    return next((i for i in map(id_of, names) if i is not None), None)

  mask = first(_MASK) if mask is None else mask
  if cls is None:
    cls, sep = first(_CLS), first(_SEP)
    if mask is not None and cls is None:
      cls, sep = id_of("<s>"), id_of("</s>")
  sep = first(_SEP) if sep is None else sep
  if mask is None and len(sentinel_ids):
    mask = int(sentinel_ids[0])
  unk = first(_UNK) if unk is None else unk
  eos = first(_EOS) if eos is None else eos
  eos = sep if eos is None else eos
  pad = first(_PAD) if pad is None else pad
  fillers = (pad, filler, eos, unk)
  pad = next((i for i in fillers if i is not None), 0)
  bos = first(_BOS) if bos is None else bos
  return SpecialIds(pad, eos, unk, bos, cls, sep, mask)


def is_text(piece: str) -> bool:
  """Whether an added piece is read in any text, though files call it special.

  Sentinels are, and single characters, which stand for themselves (the full
  stop of ALBERT).
  """
  return len(piece) == 1 or piece.startswith(SENTINEL)


def find_sentinels(id_of: Callable[[str], int | None]) -> np.ndarray:
  """Returns the ids of `<extra_id_0>`, `<extra_id_1>`, ...: int32 [found].

  SentencePiece writes a space before them (seqio/vocabularies.py).
  """
  found = []
  while True:
    name = f"{SENTINEL}{len(found)}>"
    piece = id_of("▁" + name)
    piece = id_of(name) if piece is None else piece
    if piece is None:
      return np.array(found, np.int32)
    found.append(piece)


class Tokenizer:
  """The base of every kind of vocabulary; `Vocabulary` documents it.

  The defaults fit a kind that only its own files describe.

  Attributes:
    is_stated: Whether a file of `files.SAYING` beside the files states other
      special ids (chat models end a turn), or how texts are cut.
    rules: What makes other ids than the files by themselves, or "".
    tokenizer_class: The class that the files name or the model implies, or
      None.
    passed_over: Special pieces that the model beside the files has no rows for.
    added_special: The ids of added pieces that the files call special.
  """

  size: int
  extra_ids: int
  lower_case: bool
  special: SpecialIds
  sentinel_ids: np.ndarray
  is_stated: bool = False
  rules: str = ""
  tokenizer_class: str | None = None
  passed_over: tuple[str, ...] = ()
  added_special: frozenset[int] = frozenset()

  def encode(self, text: str) -> list[int]:
    """Returns the ids of a text."""
    raise NotImplementedError

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of texts."""
    raise NotImplementedError

  def encode_arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the same as int32 [tokens] each."""
    raise NotImplementedError

  def encode_targets(self, text: str) -> list[int]:
    """Returns the ids of a text that a model is to write."""
    return self.encode(text)

  def encode_prompt(self, text: str) -> list[int]:
    """Returns the ids of a text whose special pieces are no text."""
    return self.encode(text)

  def encode_with_places(
    self, text: str
  ) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Returns the ids of a text, and the characters that each piece is.

    None if the kind does not know them.
    """

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text of ids, all below `size`."""
    raise NotImplementedError

  def pieces(self) -> list[str | None]:
    """Returns what each id is written as; None for what is no text."""
    raise NotImplementedError

  def to_json(self) -> str | None:
    """Returns a tokenizer.json of the vocabulary; None if there is none."""
