"""Files of a vocabulary as Hugging Face directories have them."""

from collections.abc import Iterator
import json
import os
import pathlib
import shutil
from typing import Any

from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.interop.huggingface.directory import read_json

CONFIG = "tokenizer_config.json"
_ADDED = "added_tokens.json"
# Those of every tokenizer of the families that are exchanged.
_NAMES = (
  CONFIG,
  "tokenizer.json",
  "special_tokens_map.json",
  _ADDED,
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
  "tokenizer_json": "tokenizer.json",
}


def of_directory(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Finds the files of a directory that its tokenizer is made of."""
  for path in sorted(folder.iterdir()):
    if path.name in _NAMES or path.suffix in _SUFFIXES:
      yield path


def start_id(folder: pathlib.Path) -> int | None:
  """The id that a directory's tokenizer puts before a text.

  Llama's is BOS, that of RoBERTa and of what reads its files (CodeT5) `<s>`;
  None where a text begins with itself (T5, GPT-2).
  """
  config = files.tokenizer_config(str(folder))
  if (folder / "tokenizer.json").is_file():
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    alone = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    # A template may put a token behind the text alone, as T5's.
    return None if whole[: len(alone)] == alone else whole[0]
  kind = config.get("tokenizer_class") or ""
  if "Llama" in kind:
    return Vocabulary(folder).bos_id
  if "Roberta" in kind:
    return Vocabulary(folder).cls_id
  return None


def unread_pieces(folder: pathlib.Path) -> list[str]:
  """Pieces of a directory's added_tokens.json that our vocabulary has not.

  A tokenizer.json holds such pieces itself.

  Raises:
    UserError: the file or the vocabulary is damaged.
  """
  path = folder / _ADDED
  if not path.is_file() or not files.is_vocabulary(str(folder)):
    return []
  size = Vocabulary(folder).size
  return [piece for piece, i in read_json(path).items() if i >= size]


def write(vocabulary: Vocabulary, folder: pathlib.Path) -> None:
  """Writes the files of a vocabulary so that `AutoTokenizer` finds them.

  Raises:
    UserError: its files are absent or damaged.
  """
  found = files.recognise(vocabulary.path)
  for path in found.paths:
    name = _FILES.get(found.kind, os.path.basename(path))
    shutil.copyfile(path, folder / name)
  text = json.dumps(_config(vocabulary, found), indent=2) + "\n"
  (folder / CONFIG).write_text(text, encoding="utf-8")


def _config(
  vocabulary: Vocabulary, found: files.VocabularyFiles
) -> dict[str, Any]:
  kind = found.kind
  config = {"tokenizer_class": _CLASSES[kind]}
  if kind in ("sentencepiece", files.BYTES):
    config["extra_ids"] = vocabulary.extra_ids
  if kind == "wordpiece":
    config["do_lower_case"] = vocabulary.lower_case
  if kind == "tokenizer_json":
    config |= _special_pieces(vocabulary, found.paths[0])
  return config


def _special_pieces(vocabulary: Vocabulary, path: str) -> dict[str, str]:
  """Names the special pieces, which a tokenizer.json does not say."""
  content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
  pieces = {p["id"]: p["content"] for p in content.get("added_tokens", ())}
  roles = {
    "pad_token": vocabulary.pad_id,
    "eos_token": vocabulary.eos_id,
    "unk_token": vocabulary.unk_id,
    "bos_token": vocabulary.bos_id,
  }
  return {role: pieces[i] for role, i in roles.items() if i in pieces}
