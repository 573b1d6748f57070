"""The files of a vocabulary, and the kind that they show."""

from collections.abc import Callable, Collection, Sequence
import dataclasses
import functools
import hashlib
import os
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.errors import UserError

BYTES = "bytes"  # the path of the vocabulary that has no file
_KINDS = (
  "SentencePiece model (*.model), WordPiece list (vocab.txt), byte-level BPE "
  "(vocab.json beside merges.txt), Marian's three files (vocab.json beside "
  "source.spm and target.spm) or tokenizer.json"
)
_PAIR = ("vocab.json", "merges.txt")
_MARIAN = ("vocab.json", "source.spm", "target.spm")
_PART_OF = {
  "byte_bpe": "half of a byte-level BPE",
  "marian": "a third of a Marian vocabulary",
}
_ENOUGH = 1 << 20
# A Hugging Face directory tells in it which class reads its other files.
_TOKENIZER_CONFIG = "tokenizer_config.json"
_SPECIAL_TOKENS_MAP = "special_tokens_map.json"
_MODEL_CONFIG = "config.json"
# What says more of a vocabulary than its own files, with its schema.
SAYING = {
  _TOKENIZER_CONFIG: schemas.TOKENIZER_CONFIG,
  _SPECIAL_TOKENS_MAP: schemas.SPECIAL_TOKENS_MAP,
  _MODEL_CONFIG: schemas.CONFIG,
}
_BYTES_CLASS = "ByT5Tokenizer"
_WITH_SENTINELS = ("T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer")
_T5_EXTRA_IDS = 100
_XLM_ROBERTAS = ("XLMRobertaTokenizer", "XLMRobertaTokenizerFast")


@dataclasses.dataclass(frozen=True)
class VocabularyFiles:
  """The files of a vocabulary.

  Attributes:
    kind: 'sentencepiece', 'wordpiece', 'byte_bpe', 'marian', 'tokenizer_json'
      or 'bytes'.
    paths: the files; of several, vocab.json is first; none of bytes.
    stamps: modification time and size of each: rewritten files are other ones.
  """

  kind: str
  paths: tuple[str, ...]
  stamps: tuple[tuple[int, int], ...]


def recognise(path: str) -> VocabularyFiles:
  """Returns the files at `path`, by their content.

  Args:
    path: a file, one of a byte-level BPE's two or Marian's three, a folder with
      one vocabulary, or 'bytes'.

  Raises:
    UserError: nothing can be read there, or it is no vocabulary.
  """
  if path == BYTES or has_bytes(path):
    return VocabularyFiles(BYTES, (), ())
  file = _in_folder(path) if os.path.isdir(path) else path
  try:
    return _recognise(file, _stamp(file))
  except OSError as error:
    raise UserError(
      f"The vocabulary file {file!r} cannot be read ({error.strerror})."
    ) from None


def has_bytes(folder: str) -> bool:
  """Whether a Hugging Face directory's vocabulary is ByT5's, without a file.

  Those that were written before tokenizer_config.json named its class (ByT5's
  own) name it in config.json.
  """
  kind = _tokenizer_class(folder)
  if kind is None:
    kind = _read(folder, _MODEL_CONFIG).get("tokenizer_class")
  return kind == _BYTES_CLASS


def is_vocabulary(path: str) -> bool:
  """Whether `recognise` finds a vocabulary at a path."""
  try:
    recognise(path)
  except UserError:
    return False
  return True


def tokenizer_config(folder: str) -> dict[str, Any]:
  """Reads the tokenizer_config.json in a folder; empty where there is none.

  Raises:
    UserError: The file is damaged, or a value in it has another type.
  """
  return _read(folder, _TOKENIZER_CONFIG)


def stated_pieces(folder: str) -> dict[str, str]:
  """Returns the special pieces as the files beside a vocabulary name them.

  Args:
    folder: A Hugging Face directory; other folders state nothing.

  Returns:
    The pieces of those of `pad`, `eos` and `bos` that are stated. The unknown
    one is not among them: GPT-2's files name EOS, which it never stands for.

  Raises:
    UserError: A file is damaged, or a value in it has another type.
  """
  stated = {
    **_read(folder, _SPECIAL_TOKENS_MAP),
    **tokenizer_config(folder),
  }
  found = {}
  for role in ("pad", "eos", "bos"):
    piece = stated.get(f"{role}_token")
    piece = piece.get("content") if isinstance(piece, dict) else piece
    if piece is not None:
      found[role] = piece
  return found


def stated_ids(
  folder: str, id_of: Callable[[str], int | None]
) -> dict[str, int]:
  """The ids of `stated_pieces` that a vocabulary has, and of a `filler`.

  That is the padding of an encoder-decoder's config.json, whose vocabulary may
  have no piece for it (MADLAD-400's). What pads a language model is no matter
  of its config.json.

  Args:
    folder: The folder of the vocabulary, as in `stated_pieces`.
    id_of: the id of a piece, None where it is absent.

  Raises:
    UserError: A file is damaged, or a value in it has another type.
  """
  found = {r: id_of(piece) for r, piece in stated_pieces(folder).items()}
  model = _read(folder, _MODEL_CONFIG)
  padding = model.get("pad_token_id")
  if model.get("is_encoder_decoder") and padding is not None:
    rows = stated_rows(folder)
    is_one = padding >= 0 and (rows is None or padding < rows)
    found["filler"] = padding if is_one else None
  return {role: i for role, i in found.items() if i is not None}


def stated_rows(folder: str) -> int | None:
  """The rows of the embedding in a config.json, None where it says none.

  Raises:
    UserError: The file is damaged, or a value in it has another type.
  """
  return _read(folder, _MODEL_CONFIG).get("vocab_size")


def stated_model_type(folder: str) -> str | None:
  """The kind of model in a config.json, None where it says none.

  Raises:
    UserError: The file is damaged, or a value in it has another type.
  """
  return _read(folder, _MODEL_CONFIG).get("model_type")


def _read(folder: str, name: str) -> dict[str, Any]:
  """The JSON file of a name in a folder; empty where there is none."""
  path = os.path.join(folder, name)
  return schemas.read(path, SAYING[name]) if os.path.isfile(path) else {}


def is_xlm_robertas(model: str) -> bool:
  """Whether the files beside a SentencePiece model name XLM-RoBERTa.

  Its ids are fairseq's and not those of the SentencePiece model.
  """
  folder = os.path.dirname(model)
  kind = _tokenizer_class(folder)
  if kind is None:
    return stated_model_type(folder) == "xlm-roberta"
  return kind in _XLM_ROBERTAS


def stated_extra_ids(model: str) -> int | None:
  """Returns the number of sentinels that a model's neighbouring files add.

  None where they do not say, or where they say T5's number, which a model with
  sentinels of its own does not get.
  """
  folder = os.path.dirname(model)
  kind = _tokenizer_class(folder)
  if kind is None:
    return 0 if is_xlm_robertas(model) else None
  if kind not in _WITH_SENTINELS:
    return 0
  stated = tokenizer_config(folder).get("extra_ids")
  return None if stated == _T5_EXTRA_IDS else stated


def _tokenizer_class(folder: str) -> str | None:
  return tokenizer_config(folder).get("tokenizer_class")


def checksum(files: VocabularyFiles) -> str:
  """Returns the SHA-256 of one file, or of the checksums of several."""
  if files.kind == BYTES:
    return hashlib.sha256(b"bytes").hexdigest()
  found = [
    _sha256(path, stamp)
    for path, stamp in zip(files.paths, files.stamps, strict=True)
  ]
  if len(found) == 1:
    return found[0]
  return hashlib.sha256(" ".join(found).encode()).hexdigest()


def _in_folder(folder: str) -> str:
  """Returns the main file of the one vocabulary in a folder."""
  names = sorted(os.listdir(folder))
  if _is_marian(names):
    return os.path.join(folder, _MARIAN[0])
  kind = _tokenizer_class(folder)
  json_file = os.path.join(folder, "tokenizer.json")
  goes_first = kind not in (None, *_WITH_SENTINELS) or is_xlm_robertas(
    json_file
  )
  if goes_first and "tokenizer.json" in names:
    return json_file
  models = [name for name in names if name.endswith(".model")]
  if len(models) == 1:
    return os.path.join(folder, models[0])
  for name in ("tokenizer.json", *_PAIR, "vocab.txt"):
    if not models and name in names:
      return os.path.join(folder, name)
  there = ", ".join(models) or "none"
  raise UserError(
    f"The folder {folder!r} does not hold one vocabulary (models: {there}); "
    f"name a {_KINDS}."
  )


@functools.lru_cache(maxsize=32)
def _recognise(path: str, stamp: tuple[int, int]) -> VocabularyFiles:
  with open(path, "rb") as file:
    start = file.read(_ENOUGH)
  folder, name = os.path.split(path)
  if name in _MARIAN and _is_marian(os.listdir(folder or os.curdir)):
    return _together("marian", path, _MARIAN)
  if name in _PAIR:
    return _together("byte_bpe", path, _PAIR)
  kind = _kind(start)
  if start.startswith(b"version https://git-lfs"):
    raise UserError(
      f"The vocabulary file {path!r} is a pointer of Git LFS and not the file; "
      "fetch that with `git lfs pull`."
    )
  if kind is None:
    raise UserError(f"The vocabulary file {path!r} is not a {_KINDS}.")
  return VocabularyFiles(kind, (path,), (stamp,))


def _is_marian(names: Collection[str]) -> bool:
  """Whether names of files in a folder are those of a Marian vocabulary."""
  return {"vocab.json", "source.spm"} <= {*names} and "merges.txt" not in names


def _together(kind: str, path: str, names: Sequence[str]) -> VocabularyFiles:
  """Returns the files of these names beside a path, which is one of them."""
  folder = os.path.dirname(path)
  paths = tuple(os.path.join(folder, name) for name in names)
  if absent := [other for other in paths if not os.path.exists(other)]:
    raise UserError(
      f"The vocabulary file {path!r} is {_PART_OF[kind]}; {absent[0]!r} is "
      "missing."
    )
  return VocabularyFiles(kind, paths, tuple(map(_stamp, paths)))


def _kind(start: bytes) -> str | None:
  # A serialized model begins with its first piece: field 1, of bytes (0x0a).
  if start.startswith(b"\n"):
    return "sentencepiece"
  if start.lstrip().startswith(b"{"):
    return "tokenizer_json"
  return "wordpiece" if b"[UNK]" in start.split() else None


def _stamp(path: str) -> tuple[int, int]:
  status = os.stat(path)
  return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=32)
def _sha256(path: str, stamp: tuple[int, int]) -> str:
  del stamp  # part of the cache key only
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
