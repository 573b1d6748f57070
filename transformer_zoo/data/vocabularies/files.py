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
# In a Hugging Face directory it names the class that reads the other files.
_TOKENIZER_CONFIG = "tokenizer_config.json"
_SPECIAL_TOKENS_MAP = "special_tokens_map.json"
_ADDED_TOKENS = "added_tokens.json"
_MODEL_CONFIG = "config.json"
# What says more of a vocabulary than its own files, with its schema.
SAYING = {
  _TOKENIZER_CONFIG: schemas.TOKENIZER_CONFIG,
  _SPECIAL_TOKENS_MAP: schemas.SPECIAL_TOKENS_MAP,
  _ADDED_TOKENS: schemas.IDS,
  _MODEL_CONFIG: schemas.CONFIG,
}
_BYTES_CLASS = "ByT5Tokenizer"
_WITH_SENTINELS = ("T5Tokenizer", "MT5Tokenizer")
_T5_EXTRA_IDS = 100
# Classes whose names end so by themselves.
_OF_ANY = ("PreTrainedTokenizerFast",)
# Models -> the class of their tokenizer where no file names one, as
# `AutoTokenizer` of `transformers` 5 has it.
_OF_MODELS = {
  "albert": "AlbertTokenizer",
  "bart": "RobertaTokenizer",
  "bert": "BertTokenizer",
  "camembert": "CamembertTokenizer",
  "deberta": "DebertaTokenizer",
  "deberta-v2": "DebertaV2Tokenizer",
  "distilbert": "BertTokenizer",
  "electra": "BertTokenizer",
  "funnel": "FunnelTokenizer",
  "gpt2": "GPT2Tokenizer",
  "gpt_neo": "GPT2Tokenizer",
  "gptj": "GPT2Tokenizer",
  "marian": "MarianTokenizer",
  "mbart": "MBartTokenizer",
  "mpnet": "MPNetTokenizer",
  "mt5": "T5Tokenizer",
  "openai-gpt": "OpenAIGPTTokenizer",
  "pegasus": "PegasusTokenizer",
  "qwen3": "Qwen2Tokenizer",
  "roberta": "RobertaTokenizer",
  "t5": "T5Tokenizer",
  "xlm-roberta": "XLMRobertaTokenizer",
  "xlnet": "XLNetTokenizer",
}
# Models whose class `AutoTokenizer` ignores, whatever the files name; None for
# none, whose tokenizer.json is read as it stands.
_OF_MODELS_ALONE = {
  "bloom": None,
  "mistral": None,
  "modernbert": None,
  "olmo2": None,
  "qwen2": "Qwen2Tokenizer",
  "umt5": None,
}
# Other names of the same classes.
_SAME = {
  "BartTokenizer": "RobertaTokenizer",
  "ElectraTokenizer": "BertTokenizer",
  "LayoutLMTokenizer": "BertTokenizer",
  "LEDTokenizer": "RobertaTokenizer",
  "LLaMATokenizer": "LlamaTokenizer",
  "LongformerTokenizer": "RobertaTokenizer",
  "LxmertTokenizer": "BertTokenizer",
  "MobileBertTokenizer": "BertTokenizer",
  "MvpTokenizer": "RobertaTokenizer",
  "SqueezeBertTokenizer": "BertTokenizer",
}


@dataclasses.dataclass(frozen=True)
class VocabularyFiles:
  """The files of a vocabulary.

  Attributes:
    kind: 'sentencepiece', 'wordpiece', 'byte_bpe', 'marian', 'tokenizer_json'
      or 'bytes'.
    paths: the files; of several, vocab.json is first; none of bytes.
    stamps: modification time and size of each: rewritten files are other ones.
    beside: the same of those files of `SAYING` that are there.
  """

  kind: str
  paths: tuple[str, ...]
  stamps: tuple[tuple[int, int], ...]
  beside: tuple[tuple[str, int, int], ...] = ()


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
    found = _recognise(file, _stamp(file))
    return dataclasses.replace(found, beside=_beside(os.path.dirname(file)))
  except OSError as error:
    raise UserError(
      f"The vocabulary file {file!r} cannot be read ({error.strerror})."
    ) from None


def has_bytes(folder: str) -> bool:
  """Whether a Hugging Face directory's vocabulary is ByT5's, without a file.

  Those that were written before tokenizer_config.json named its class (ByT5's
  own) name it in config.json.
  """
  return _named_class(folder) == _BYTES_CLASS


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


def settings_path(folder: str) -> str:
  """Returns the path of the file that options of a tokenizer stand in."""
  path = os.path.join(folder, _TOKENIZER_CONFIG)
  return path if os.path.isfile(path) else os.path.join(folder, _MODEL_CONFIG)


def special_settings(folder: str) -> dict[str, Any]:
  """Returns tokenizer_config.json with what special_tokens_map.json changes.

  The latter is passed over where the former lists its added pieces, as in
  `transformers`.

  Raises:
    UserError: A file is damaged, or a value in it has another type.
  """
  stated = tokenizer_config(folder)
  if "added_tokens_decoder" in stated:
    return stated
  return {**stated, **_read(folder, _SPECIAL_TOKENS_MAP)}


def added_pieces(folder: str) -> dict[str, int]:
  """Returns the ids of the pieces of an added_tokens.json; empty without one.

  Raises:
    UserError: The file is damaged, or a value in it has another type.
  """
  return _read(folder, _ADDED_TOKENS)


def stated_pieces(folder: str) -> dict[str, str]:
  """Returns the special pieces as the files beside a vocabulary name them.

  Args:
    folder: A Hugging Face directory; other folders state nothing.

  Returns:
    The pieces of `pad`, `eos` and `bos`, as far as they are stated. The unknown
    one is not among them: GPT-2's files name EOS, which it never stands for.

  Raises:
    UserError: A file is damaged, or a value in it has another type.
  """
  stated = special_settings(folder)
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
  """Whether the files beside a SentencePiece model name XLM-RoBERTa."""
  return tokenizer_class(os.path.dirname(model)) == "XLMRobertaTokenizer"


def stated_extra_ids(model: str) -> int | None:
  """Returns the number of sentinels that a model's neighbouring files add.

  None where they do not say, or where they say T5's number, which a model with
  sentinels of its own does not get.
  """
  folder = os.path.dirname(model)
  if not names_class(folder):
    return None
  if _named_class(folder) not in _WITH_SENTINELS:
    return 0
  stated = tokenizer_config(folder).get("extra_ids")
  return None if stated == _T5_EXTRA_IDS else stated


def tokenizer_class(folder: str) -> str | None:
  """Returns the class of `transformers` that reads the files of a folder.

  It is the one that `AutoTokenizer` of version 5 takes: named in
  tokenizer_config.json or config.json, or the model's. None if there is none,
  or if the class leaves a tokenizer.json as it stands.

  Raises:
    UserError: A file is damaged, or a value in it has another type.
  """
  model_type = stated_model_type(folder)
  if model_type in _OF_MODELS_ALONE:
    return _OF_MODELS_ALONE[model_type]
  if names_class(folder):
    return _named_class(folder)
  return _OF_MODELS.get(model_type)


def names_class(folder: str) -> bool:
  """Whether a file of a folder names the class of its tokenizer."""
  return _named_class(folder) is not None


def _named_class(folder: str) -> str | None:
  for name in (_TOKENIZER_CONFIG, _MODEL_CONFIG):
    if kind := _read(folder, name).get("tokenizer_class"):
      kind = kind if kind in _OF_ANY else kind.removesuffix("Fast")
      return _SAME.get(kind, kind)
  return None


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
  kind = _named_class(folder) or tokenizer_class(folder)
  if kind not in (None, *_WITH_SENTINELS) and "tokenizer.json" in names:
    return os.path.join(folder, "tokenizer.json")
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
  if kind is None and tokenizer_class(folder) == "FunnelTokenizer":
    kind = "wordpiece"  # Its unknown piece is <unk>.
  if start.startswith(b"version https://git-lfs"):
    raise UserError(
      f"The vocabulary file {path!r} is a pointer of Git LFS and not the file; "
      "fetch that with `git lfs pull`."
    )
  if kind is None:
    raise UserError(f"The vocabulary file {path!r} is not a {_KINDS}.")
  return VocabularyFiles(kind, (path,), (stamp,))


def _is_marian(names: Collection[str]) -> bool:
  """Whether a folder has the files of a Marian vocabulary."""
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


def _beside(folder: str) -> tuple[tuple[str, int, int], ...]:
  paths = (os.path.join(folder, name) for name in SAYING)
  return tuple((path, *_stamp(path)) for path in paths if os.path.isfile(path))


def _stamp(path: str) -> tuple[int, int]:
  status = os.stat(path)
  return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=32)
def _sha256(path: str, stamp: tuple[int, int]) -> str:
  del stamp  # part of the cache key only
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
