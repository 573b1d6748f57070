"""Files of a vocabulary as Hugging Face directories have them."""

from collections.abc import Iterator, Sequence
import contextlib
import itertools
import json
import os
import pathlib
import shutil
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import sentencepiece_model
from transformer_zoo.data.vocabularies import tokenizers_models
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

CONFIG = "tokenizer_config.json"
_MODEL = "config.json"
_JSON = "tokenizer.json"
_ADDED = "added_tokens.json"
_SPECIAL = "special_tokens_map.json"
_OF_PIECES = (_SPECIAL, _ADDED)
# Those of every tokenizer of the families that are exchanged.
_NAMES = (
  CONFIG,
  _JSON,
  *_OF_PIECES,
  "vocab.json",
  "target_vocab.json",
  "merges.txt",
  "vocab.txt",
  "chat_template.jinja",
)
_SUFFIXES = (".model", ".spm")
_CLASSES = {
  "sentencepiece": "T5Tokenizer",
  "wordpiece": "BertTokenizer",
  "byte_bpe": "GPT2Tokenizer",
  "marian": "MarianTokenizer",
  "tokenizer_json": "PreTrainedTokenizerFast",
  files.BYTES: "ByT5Tokenizer",
}
# What the class looks for, where a vocabulary is of one file of any name.
_FILES = {
  "sentencepiece": "spiece.model",
  "wordpiece": "vocab.txt",
  "tokenizer_json": _JSON,
}
# Names of a SentencePiece model that classes look for, if another one.
_MODELS = {
  "LlamaTokenizer": "tokenizer.model",
  "DebertaV2Tokenizer": "spm.model",
  **dict.fromkeys(
    (
      "CamembertTokenizer",
      "MBartTokenizer",
      "MBart50Tokenizer",
      "XLMRobertaTokenizer",
    ),
    "sentencepiece.bpe.model",
  ),
}
_MBART, _MBART_50 = "MBartTokenizer", "MBart50Tokenizer"
_LLAMA = "Llama"
# In `transformers` 5, those that put EOS behind a text and nothing before it;
# and those that put the id of bos_token before it and nothing behind it.
_OF_BOTH = ("GPT2Tokenizer", f"{_LLAMA}Tokenizer")
_OF_TEXTS = ("T5Tokenizer", "ByT5Tokenizer", "MarianTokenizer", *_OF_BOTH)
_OF_PROMPTS = _OF_BOTH
# Those that put [CLS] before a text of an encoder and [SEP] behind it.
_ROBERTAS = "RobertaTokenizer"
_OF_ENCODERS = (
  "AlbertTokenizer",
  "BertTokenizer",
  "CamembertTokenizer",
  "ConvBertTokenizer",
  "DebertaTokenizer",
  "DebertaV2Tokenizer",
  "DistilBertTokenizer",
  "FunnelTokenizer",
  "MPNetTokenizer",
  _ROBERTAS,
  "XLMRobertaTokenizer",
  "XLNetTokenizer",  # Both stand behind the text.
)


def of_directory(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Finds the files of a directory that its tokenizer is made of."""
  for path in sorted(folder.iterdir()):
    if path.name in _NAMES or path.suffix in _SUFFIXES:
      yield path


def start_id(folder: pathlib.Path) -> int | None:
  """The id that a directory's tokenizer puts before a text.

  It is BOS for Llama, and `<s>` for RoBERTa and for models that read its files
  (CodeT5); None where a text begins with itself (T5, GPT-2, `add_bos_token:
  false`). For mBART-50 it is the code of the language that is read.

  Raises:
    UserError: a file is damaged.
  """
  of_class = files.tokenizer_class(str(folder))
  if _mbarts(folder) == _MBART_50:
    return _language_id(folder)
  if (folder / _JSON).is_file():
    before, _ = _around(folder / _JSON)
    return before[0] if before else None
  config = files.tokenizer_config(str(folder))
  kind = of_class or config.get("tokenizer_class") or _class_of_model(folder)
  # "LLaMATokenizer" in the first conversions.
  if config.get("add_bos_token", _LLAMA.lower() in kind.lower()):
    return Vocabulary(folder).bos_id
  if "Roberta" in kind:
    return Vocabulary(folder).cls_id
  return None


def end_id(folder: pathlib.Path) -> int | None:
  """The id that a directory's tokenizer puts behind the EOS of a text.

  mBART's is the code of the language that is read; None for other ones.

  Raises:
    UserError: A file is damaged, or the code is no piece.
  """
  return _language_id(folder) if _mbarts(folder) == _MBART else None


def is_mbarts(folder: pathlib.Path) -> bool:
  """Whether the tokenizer of a directory is one of mBART's."""
  return _mbarts(folder) is not None


def _mbarts(folder: pathlib.Path) -> str | None:
  """The one of mBART's classes that reads a directory's vocabulary, if any."""
  kind = files.tokenizer_class(str(folder))
  if kind not in (_MBART, _MBART_50):
    return None
  # Files of another kind are not read by the class that the model implies.
  return kind if Vocabulary(folder).tokenizer_class == kind else None


def _language_id(folder: pathlib.Path) -> int:
  """The id of the language of an mBART directory, English if none is named."""
  config = files.tokenizer_config(str(folder))
  language = config.get("src_lang") or "en_XX"
  pieces = Vocabulary(folder).pieces()
  if language not in pieces:
    raise UserError(
      f"src_lang={language!r} in {str(folder / CONFIG)!r} is no piece of the "
      "vocabulary beside it; name the code of a language, like 'en_XX'"
    )
  return pieces.index(language)


def _class_of_model(folder: pathlib.Path) -> str:
  """The tokenizer class that a config.json names or implies, or ""."""
  if not (folder / _MODEL).is_file():
    return ""
  config = schemas.read(folder / _MODEL, schemas.CONFIG)
  if kind := config.get("tokenizer_class"):
    return kind
  of_llama = config.get("model_type") in ("llama", "mistral")
  has_model = any(path.suffix == ".model" for path in of_directory(folder))
  return f"{_LLAMA}Tokenizer" if of_llama and has_model else ""


def _around(path: pathlib.Path) -> tuple[list[int], list[int]]:
  """The ids that a tokenizer.json puts before a text and behind it."""
  import tokenizers

  with tokenizers_models.refused(f"{str(path)!r} is no tokenizer.json"):
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
  with tokenizers_models.refused(f"The rules of {str(path)!r} fail on a text"):
    text, alone = _readable(tokenizer)
    whole = tokenizer.encode(text).ids
  # Padding may be on; where the text itself stands is found from the left.
  for start in range(len(whole) - len(alone) + 1):
    if whole[start : start + len(alone)] == alone:
      return whole[:start], whole[start + len(alone) :]
  return whole[:1], []


def _readable(tokenizer) -> tuple[str, list[int]]:
  """A text that a tokenizer has ids for, none of which are put around texts.

  It may have none for a letter, and nothing for what it cannot spell.
  """
  around = {*tokenizer.encode("").ids}
  pieces = tokenizer.get_vocab(with_added_tokens=False)
  for text in itertools.chain("a", sorted(pieces)):
    with contextlib.suppress(Exception):  # the library raises plain ones
      ids = tokenizer.encode(text, add_special_tokens=False).ids
      if ids and around.isdisjoint(ids):
        return text, ids
  return "", []


def vocabulary(folder: pathlib.Path) -> Vocabulary | None:
  """The vocabulary of a directory; None without one.

  Raises:
    UserError: it cannot be read.
  """
  if not folder.is_dir():
    return None
  if not any(of_directory(folder)) and not files.has_bytes(str(folder)):
    return None
  found = Vocabulary(folder)
  found.check()
  return found


def unread_pieces(folder: pathlib.Path) -> Iterator[str]:
  """Yields sentences on the pieces of a directory that our vocabulary lacks.

  Raises:
    UserError: a file or the vocabulary is damaged.
  """
  found = vocabulary(folder)
  if found is None:
    return
  if found.passed_over:
    yield (
      f"{_listed(found.passed_over)} of {folder} that the embedding has no "
      "rows for and nothing needs"
    )
  path = folder / _ADDED
  added = schemas.read(path, schemas.IDS) if path.is_file() else {}
  unread = [
    piece
    for piece, i in added.items()
    if i >= found.size and piece not in found.passed_over
  ]
  if unread:
    yield (
      f"{_listed(unread)} of {path} that the vocabulary there has not; a "
      "tokenizer.json in place of the other files would have them"
    )


def _listed(pieces: Sequence[str]) -> str:
  shown = ", ".join(pieces[:3])
  return f"{len(pieces)} piece{'s' * (len(pieces) > 1)} ({shown})"


def write(
  vocabulary: Vocabulary,
  folder: pathlib.Path,
  *,
  first_fed: int | None = None,
  begin_id: int | None = None,
  end_id: int | None = None,
  of_encoder: bool = False,
) -> str:
  """Writes the files of a vocabulary so that `AutoTokenizer` finds them.

  Args:
    vocabulary: The vocabulary of the model.
    folder: The folder to write in.
    first_fed: The id that prompts of a language model follow; None for an
      encoder-decoder, whose inputs end with EOS.
    begin_id: The id that inputs of an encoder-decoder begin with (BART), or
      None.
    end_id: The id that inputs end with behind their EOS (mBART), or None.
    of_encoder: Whether the model is an encoder alone, whose texts stand between
      [CLS] and [SEP].

  Returns:
    A sentence on the class of the tokenizer, if it reads texts in another way
    than the model was trained on; else "".

  Raises:
    UserError: Files of the vocabulary are absent or damaged.
  """
  found = files.recognise(vocabulary.path)
  of_files = found.kind
  if whole := vocabulary.with_sentinels():
    of_files = "tokenizer_json"
    (folder / _JSON).write_text(whole, encoding="utf-8")
  kind = _CLASSES[of_files]
  if _is_llamas(vocabulary, found):
    kind = f"{_LLAMA}Tokenizer"
  elif (of_encoder or begin_id is not None) and of_files == "byte_bpe":
    kind = _ROBERTAS
  of_class, config = vocabulary.tokenizer_class, {}
  if not whole and (vocabulary.rules or of_class):
    config = _copy_rules(vocabulary, folder)
    # Which of these two a byte-level BPE has is a matter of the model.
    if of_class not in (None, _CLASSES["byte_bpe"], _ROBERTAS):
      kind = of_class
  for path in () if whole else found.paths:
    name = _FILES.get(found.kind, os.path.basename(path))
    if found.kind == "sentencepiece":
      name = _MODELS.get(kind, name)
    shutil.copyfile(path, folder / name)
  config |= {
    "tokenizer_class": kind,
    **_config(vocabulary, of_files, first_fed),
  }
  of_prompts = first_fed is not None
  if kind in _OF_BOTH or (of_files == "sentencepiece" and of_prompts):
    config |= {"add_bos_token": of_prompts, "add_eos_token": not of_prompts}
  text = json.dumps(config, indent=2) + "\n"
  (folder / CONFIG).write_text(text, encoding="utf-8")
  if kind == _CLASSES["sentencepiece"] and not _is_t5s(vocabulary, found):
    return (
      f"its {kind} cuts texts in another way than this model was trained on: "
      f"give the model the ids of {_FILES['sentencepiece']} as the "
      "sentencepiece package has them"
    )
  before = [] if first_fed is None else [first_fed]
  behind = [vocabulary.eos_id] if first_fed is None else []
  behind += [] if end_id is None else [end_id]
  of_kind = _OF_TEXTS if first_fed is None else _OF_PROMPTS
  if of_encoder and vocabulary.cls_id is not None:
    before, behind = [vocabulary.cls_id], [vocabulary.sep_id]
    of_kind = _OF_ENCODERS
  elif begin_id is not None:
    before, of_kind = [begin_id], _OF_ENCODERS
  as_trained = (
    _around(folder / _JSON) == (before, behind)
    if of_files == "tokenizer_json"
    else kind in of_kind
  )
  if kind in (_MBART, _MBART_50):
    language = end_id if kind == _MBART else begin_id
    as_trained = language == _language_id(folder)
  if as_trained or None in behind:
    return ""
  what = "prompts" if first_fed is not None else "inputs"
  places = [f"id {i} before them" for i in before]
  places += [f"id {i} behind them" for i in behind]
  return (
    f"its {kind} reads {what} in another way than this model was trained on: "
    f"call it with add_special_tokens=False and put {' and '.join(places)}"
  )


def _copy_rules(vocabulary: Vocabulary, folder: pathlib.Path) -> dict[str, Any]:
  """Copies what stands beside a vocabulary of how a class cuts texts.

  Returns:
    The options of its tokenizer_config.json.
  """
  beside = os.path.dirname(files.recognise(vocabulary.path).paths[0])
  for name in _OF_PIECES:
    if os.path.isfile(os.path.join(beside, name)):
      shutil.copyfile(os.path.join(beside, name), folder / name)
  return {
    **files.tokenizer_config(beside),
    "do_lower_case": vocabulary.lower_case,
  }


def _is_llamas(vocabulary: Vocabulary, found: files.VocabularyFiles) -> bool:
  return (
    found.kind == "sentencepiece"
    and not vocabulary.extra_ids
    and not vocabulary.lower_case
    and sentencepiece_model.is_llamas(*found.paths)
  )


def _is_t5s(vocabulary: Vocabulary, found: files.VocabularyFiles) -> bool:
  return not vocabulary.lower_case and sentencepiece_model.is_t5s(*found.paths)


def _config(
  vocabulary: Vocabulary, kind: str, first_fed: int | None
) -> dict[str, Any]:
  config = {}
  of_t5 = kind == "sentencepiece" and vocabulary.tokenizer_class is None
  if kind == files.BYTES or of_t5:
    config["extra_ids"] = vocabulary.extra_ids
  if kind == "wordpiece":
    config["do_lower_case"] = vocabulary.lower_case
  if kind in ("sentencepiece", "byte_bpe", "tokenizer_json"):
    config |= _special_pieces(vocabulary, kind, first_fed)
  return config


def _special_pieces(
  vocabulary: Vocabulary, kind: str, first_fed: int | None
) -> dict[str, str | None]:
  """Names the special pieces, for which classes have names of their own."""
  pieces = vocabulary.pieces()
  for sentinel in vocabulary.sentinel_ids:
    pieces[sentinel] = None
  roles = {
    "pad_token": vocabulary.pad_id,
    "eos_token": vocabulary.eos_id,
    "unk_token": vocabulary.unk_id,
    "bos_token": vocabulary.bos_id if first_fed is None else first_fed,
  }
  if kind == "byte_bpe":
    roles |= {
      "cls_token": vocabulary.cls_id,
      "sep_token": vocabulary.sep_id,
      "mask_token": vocabulary.mask_id,
    }
  found = {r: None if i is None else pieces[i] for r, i in roles.items()}
  if kind == "byte_bpe":
    # GPT-2's end would be added where nothing is said of these three.
    found["unk_token"] = found["unk_token"] or found["eos_token"]
    return found
  return {role: piece for role, piece in found.items() if piece is not None}
