"""The interface of all vocabularies, with SeqIO's semantics."""

from collections.abc import Iterable, Sequence
import dataclasses
import functools
import hashlib
import os
import threading
from typing import Any, TYPE_CHECKING

import numpy as np

from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import tokenizer
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import seqio


class Vocabulary:
  """A mapping between texts and ids, defined by files.

  The files are read at the first use, not at construction. Instances are equal
  that name the same path, sentinels and case; they are immutable, survive
  pickling, and may be used by several threads.

  Attributes:
    path: a SentencePiece model, a WordPiece list (vocab.txt), a vocab.json or
      merges.txt that lie beside each other, one of Marian's vocab.json,
      source.spm and target.spm, a tokenizer.json, a folder with one of these
      (as a Hugging Face directory is), or 'bytes'.
  """

  def __init__(
    self,
    path: str | os.PathLike[str],
    extra_ids: int | None = None,
    lower_case: bool | None = None,
  ):
    """Names a vocabulary.

    Args:
      path: The path of the files, as in the class.
      extra_ids: The number of sentinels after the pieces. By default the number
        that a tokenizer_config.json beside a SentencePiece model states, or 100
        (T5), none if the model has sentinels or a mask of its own (mT5), or
        another class than T5's reads it; 125 for bytes (ByT5); none for other
        kinds.
      lower_case: text is read without case and accents. By default as the class
        of `transformers` that the files beside name has it, or as a WordPiece
        list shows; of SentencePiece models without these files, ALBERT's
        uncased ones need it.
    """
    self.path = os.fspath(path)
    self._settings = (extra_ids, lower_case)

  @property
  def kind(self) -> str:
    """See `files.VocabularyFiles`."""
    return files.recognise(self.path).kind

  @property
  def extra_ids(self) -> int:
    """The number of sentinels that follow the pieces of the file."""
    given = self._settings[0]
    return self._tokenizer.extra_ids if given is None else given

  @property
  def lower_case(self) -> bool:
    """Whether text is read without case and accents."""
    return self._tokenizer.lower_case

  @property
  def size(self) -> int:
    """The number of ids: pieces and sentinels."""
    return self._tokenizer.size

  @property
  def pad_id(self) -> int:
    """Fills rows; see `SpecialIds` for a vocabulary without padding."""
    return self._tokenizer.special.pad

  @property
  def eos_id(self) -> int | None:
    """Ends a text; the separator where nothing else does (BERT, ALBERT)."""
    return self._tokenizer.special.eos

  @property
  def unk_id(self) -> int | None:
    """Stands for what cannot be spelt."""
    return self._tokenizer.special.unk

  @property
  def bos_id(self) -> int | None:
    """Begins a text."""
    return self._tokenizer.special.bos

  @property
  def cls_id(self) -> int | None:
    """Stands before the text of an encoder: [CLS], RoBERTa's <s>."""
    return self._tokenizer.special.cls

  @property
  def sep_id(self) -> int | None:
    """Stands behind a segment of it: [SEP], RoBERTa's </s>."""
    return self._tokenizer.special.sep

  @property
  def mask_id(self) -> int | None:
    """Hides a token: [MASK], <mask>, or the first sentinel."""
    return self._tokenizer.special.mask

  @property
  def sentinel_ids(self) -> np.ndarray:
    """Ids of `<extra_id_0>`, `<extra_id_1>`, ...: int32, maybe empty."""
    return self._tokenizer.sentinel_ids

  @property
  def is_stated(self) -> bool:
    """Whether files of `files.SAYING` say more than the vocabulary's own."""
    return self._tokenizer.is_stated

  @property
  def rules(self) -> str:
    """How the files beside the vocabulary's own say that texts are cut.

    The class of `transformers` and its options; "" if its own files say it.
    """
    return self._tokenizer.rules

  @property
  def tokenizer_class(self) -> str | None:
    """The class of `transformers` that reads the files, if rules are its own.

    None where the files say by themselves how texts are cut, and for T5, ByT5,
    Marian and Llama, which SentencePiece and bytes read.
    """
    return self._tokenizer.tokenizer_class

  @property
  def passed_over(self) -> tuple[str, ...]:
    """Special pieces of a tokenizer.json that the model beside has no rows for.

    The vocabulary is without them, as nothing needs them.
    """
    return self._tokenizer.passed_over

  @functools.cached_property
  def special_ids(self) -> frozenset[int]:
    """The ids that `skip_special_tokens` of `transformers` leaves out.

    Sentinels are among them where they were added to the pieces, as T5's were
    and mT5's were not.
    """
    special, sentinels = self._tokenizer.special, {*self.sentinel_ids.tolist()}
    found = {*dataclasses.astuple(special)} - {None} - sentinels
    if self.extra_ids:
      found |= sentinels
    return frozenset(found | self._tokenizer.added_special)

  @functools.cached_property
  def word_starts(self) -> np.ndarray | None:
    """True for each id that a word may begin with, bool [size].

    None where pieces do not show it. Special ids are no words: see
    `transformer_zoo.corruption.masks.noise_masks.Rows`.
    """
    return find_word_starts(self.pieces())

  @property
  def checksum(self) -> str:
    """SHA-256 in hexadecimal of the files, and of the case if that is chosen.

    It covers everything that ids depend on except `extra_ids`.
    """
    found = files.recognise(self.path)
    checksum = files.checksum(found)
    lower_case = self._settings[1]
    if found.kind == "wordpiece" or self.rules:  # another file may decide it
      lower_case = self.lower_case
    if lower_case:
      checksum = hashlib.sha256(f"{checksum} lower".encode()).hexdigest()
    if self.is_stated:
      text = f"{checksum} {self._tokenizer.special}{self.rules}"
      checksum = hashlib.sha256(text.encode()).hexdigest()
    return checksum

  def pieces(self) -> list[str | None]:
    """Returns what each id is written as; None for what is no text."""
    return self._tokenizer.pieces()

  def with_sentinels(self) -> str | None:
    """Returns a tokenizer.json of what a class of `transformers` would miss.

    None where a class adds the sentinels (T5's, ByT5's), or there are none, and
    where no tokenizer.json has other rules than its class.
    """
    if not self.extra_ids and (self.kind != "tokenizer_json" or not self.rules):
      return None
    return self._tokenizer.to_json()

  def check(self) -> None:
    """Reads the files now.

    Raises:
      UserError: they are absent, or no vocabulary.
    """
    _ = self._tokenizer

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`, without EOS."""
    return self._tokenizer.encode(text)

  def encode_with_places(self, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of `text`, and the characters that each piece is.

    Returns:
      int32 [pieces], and int32 [pieces, 2], the first character of each and the
      one after its last. Spaces around a piece are left out. A piece may be a
      part of a character, or of none.

    Raises:
      UserError: The kind of vocabulary knows no places (Marian's).
    """
    found = self._tokenizer.encode_with_places(text)
    if found is None:
      raise UserError(
        f"The vocabulary {self.path!r} of the kind {self.kind!r} does not know "
        "which characters a piece is; use one of another kind for spans and "
        "tags."
      )
    ids, places = found
    places = np.array(places, np.int32).reshape(-1, 2)
    for place in places:
      while place[0] < place[1] and text[place[0]].isspace():
        place[0] += 1
      while place[0] < place[1] and text[place[1] - 1].isspace():
        place[1] -= 1
    return np.array(ids, np.int32), places

  def encode_targets(self, text: str) -> list[int]:
    """Returns the ids of what a model is to write: Marian's are others."""
    return self._tokenizer.encode_targets(text)

  def encode_prompt(self, text: str) -> list[int]:
    """Returns the ids of what a user asks.

    Special pieces are read there, as of chat templates ("<|im_start|>"), where
    a tokenizer.json has them or the files beside a vocab.json state them;
    `encode` takes them for text.
    """
    return self._tokenizer.encode_prompt(text)

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each text, without EOS: faster than one by one."""
    return self._tokenizer.encode_batch(texts)

  def encode_arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the same as int32 [tokens] each, which is faster still."""
    return self._tokenizer.encode_arrays(texts)

  def decode(
    self, ids: Iterable[int], *, skip_special_tokens: bool = False
  ) -> str:
    """Returns the text of `ids` up to the first EOS.

    Padding, EOS and the like are left out, sentinels are written
    `<extra_id_0>` ... (not by 'bytes', as in SeqIO); an id from `size` on (a
    padded row of the embedding table) is read as unknown.

    Args:
      ids: The ids.
      skip_special_tokens: Whether all of `special_ids` are left out.
    """
    size, eos_id, unk_id = self.size, self.eos_id, self.unk_id
    clean = [i if i < size else unk_id for i in map(int, ids)]
    if eos_id is not None and eos_id in clean:
      clean = clean[: clean.index(eos_id) + 1]
    if skip_special_tokens:
      clean = [i for i in clean if i not in self.special_ids]
    return self._tokenizer.decode([i for i in clean if i is not None])

  def to_seqio(self, of_targets: bool = False) -> "seqio.Vocabulary":
    """Returns the same vocabulary for a SeqIO task; imports SeqIO.

    Args:
      of_targets: whether it reads targets, which Marian's cuts in another way.
    """
    from transformer_zoo.data.vocabularies import seqio_vocabularies

    return seqio_vocabularies.to_seqio(self, of_targets)

  @functools.cached_property
  def _tokenizer(self) -> tokenizer.Tokenizer:
    found = files.recognise(self.path)
    extra_ids, lower_case = self._settings
    if found.kind == files.BYTES and extra_ids is None:
      extra_ids = files.tokenizer_config(self.path).get("extra_ids")
    return _load(found, extra_ids, lower_case)

  def __eq__(self, other: Any) -> bool:
    if not isinstance(other, Vocabulary):
      return NotImplemented
    if self.path != other.path:
      return False
    if self._settings == other._settings:
      return True
    settings = other.extra_ids, other.lower_case
    return (self.extra_ids, self.lower_case) == settings

  def __hash__(self) -> int:
    return hash(self.path)

  def __reduce__(self):
    return Vocabulary, (self.path, *self._settings)

  def __repr__(self) -> str:
    extra_ids, lower_case = self._settings
    return f"Vocabulary({self.path!r}, {extra_ids=}, {lower_case=})"


_load_lock = threading.Lock()


def _load(
  found: files.VocabularyFiles, extra_ids: int | None, lower_case: bool | None
) -> tokenizer.Tokenizer:
  """Reads the files of a vocabulary, once for all who ask.

  Args:
    found: the files.
    extra_ids: The number of sentinels, as in `Vocabulary`.
    lower_case: True to lower the case, as in `Vocabulary`.

  Raises:
    UserError: they are damaged, or the settings do not fit their kind.
  """
  with _load_lock:
    return _read(found, extra_ids, lower_case)


@functools.lru_cache(maxsize=16)
def _read(
  found: files.VocabularyFiles, extra_ids: int | None, lower_case: bool | None
) -> tokenizer.Tokenizer:
  if extra_ids is not None and extra_ids < 0:
    raise UserError(f"extra_ids={extra_ids} is negative; use 0 for none.")
  # A run reads one kind of vocabulary and imports that one.
  if found.kind == "sentencepiece":
    from transformer_zoo.data.vocabularies import sentencepiece_model

    return sentencepiece_model.read(*found.paths, extra_ids, lower_case)
  if found.kind in ("wordpiece", "byte_bpe", "tokenizer_json"):
    from transformer_zoo.data.vocabularies import tokenizers_models

    read = getattr(tokenizers_models, found.kind)
    return read(*found.paths, extra_ids, lower_case)
  if lower_case:
    raise UserError(
      f"lower_case is for WordPiece and SentencePiece, not for {found.kind!r}; "
      "leave it out."
    )
  if found.kind == "marian":
    from transformer_zoo.data.vocabularies import marian_pieces

    return marian_pieces.MarianPieces(*found.paths, extra_ids)
  from transformer_zoo.data.vocabularies import bytes_of_text

  return bytes_of_text.BytesOfText(extra_ids)


def from_seqio(vocabulary: Any) -> Vocabulary:
  """Returns the `Vocabulary` of a SeqIO one; the inverse of `to_seqio`.

  SeqIO is not imported: its kinds are known by their attributes.

  Args:
    vocabulary: one that `to_seqio` made, or SeqIO's own SentencePiece, byte or
      BERT WordPiece vocabulary; a subclass may find its file lazily.

  Raises:
    UserError: `vocabulary` is of another kind, or normalises text in a way that
      its file does not say, or that files beside it do.
  """
  ours = getattr(vocabulary, "zoo_vocabulary", None)
  if ours is not None:
    return ours
  path = getattr(vocabulary, "sentencepiece_model_file", None)
  if path is not None:
    if (
      getattr(vocabulary, "_normalizer_spec_overrides", None) is not None
      or getattr(vocabulary, "_reverse_extra_ids", True) is not True
    ):
      raise UserError(
        f"The vocabulary of {os.fspath(path)!r} overrides the normalizer or "
        "the order of the sentinels, which a model file has to say itself."
      )
    from transformer_zoo.data.vocabularies import tokenizer_classes

    tokenizer_classes.check_plain(os.fspath(path))
    return Vocabulary(path, vocabulary.extra_ids)
  name = type(vocabulary).__name__
  if "ByteVocabulary" in [base.__name__ for base in type(vocabulary).__mro__]:
    return Vocabulary(files.BYTES, vocabulary.extra_ids)
  path = getattr(vocabulary, "_vocab_lookup_table", None)
  if isinstance(path, str) and hasattr(vocabulary, "_lower_case"):
    return Vocabulary(path, 0, bool(vocabulary._lower_case))
  raise UserError(
    f"The vocabulary {name} is neither SentencePiece nor WordPiece nor bytes; "
    "use transformer_zoo.data.vocabularies.Vocabulary(path).to_seqio()."
  )


# How pieces say that a space stands before them: SentencePiece, byte-level BPE
# (space and newline), and bytes themselves.
_SPACES = ("▁", "Ġ", "Ċ", " ", "\t", "\n", "\r")
# How pieces of WordPiece say that none does.
_CONTINUES = "##"


def find_word_starts(pieces: Sequence[str | None]) -> np.ndarray | None:
  """Returns True for each piece that a word may begin with, bool [size].

  A word is what stands between spaces; in WordPiece, which splits at
  punctuation before, punctuation too is a word.

  Args:
    pieces: The text of each id, None for ids without text.

  Returns:
    None if no piece shows it.
  """
  pieces = [piece or "" for piece in pieces]
  begins = np.array([piece.startswith(_SPACES) for piece in pieces])
  continues = np.array([piece.startswith(_CONTINUES) for piece in pieces])
  if not (begins.any() or continues.any()):
    return None
  return begins if begins.sum() > continues.sum() else ~continues
