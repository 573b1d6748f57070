"""Vocabularies within prepared folders: copied, and told in manifests."""

from collections.abc import Iterator, Mapping
import os
import pathlib
import shutil
from typing import Any

from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies.vocabulary import Vocabulary

_SUFFIX = {
  "sentencepiece": ".model",
  "wordpiece": ".txt",
  "tokenizer_json": ".json",
}


def store(vocabulary: Vocabulary, folder: pathlib.Path) -> Vocabulary:
  """Returns the same vocabulary, over a copy of its files in `folder`.

  Copies are named by their checksum: `<checksum>.model`, `.txt` or `.json`, or
  a folder of that name for several files, among them those beside it that say
  what its pieces are for.

  Raises:
    UserError: its files are absent or damaged.
  """
  found = files.recognise(vocabulary.path)
  lower_case = vocabulary.lower_case
  settings = (vocabulary.extra_ids, lower_case)
  if found.kind == files.BYTES:
    return Vocabulary(files.BYTES, *settings)
  name = vocabulary.checksum[:16]
  if len(found.paths) > 1 or vocabulary.is_stated:
    path = folder / name
    for file in [*found.paths, *_saying(vocabulary, found)]:
      _copy(file, path / os.path.basename(file))
  else:
    path = folder / (name + _SUFFIX[found.kind])
    _copy(found.paths[0], path)
  return Vocabulary(path, *settings)


def _saying(
  vocabulary: Vocabulary, found: files.VocabularyFiles
) -> Iterator[str]:
  """Finds the files beside its own that a vocabulary's special ids are of."""
  beside = os.path.dirname(found.paths[0])
  for name in files.SAYING if vocabulary.is_stated else ():
    if os.path.isfile(os.path.join(beside, name)):
      yield os.path.join(beside, name)


def to_json(vocabulary: Vocabulary) -> dict[str, Any]:
  """Returns what a manifest says of a stored vocabulary."""
  return {
    "kind": vocabulary.kind,
    "file": os.path.basename(vocabulary.path),
    "extra_ids": vocabulary.extra_ids,
    "lower_case": vocabulary.lower_case,
    "size": vocabulary.size,
    "sha256": vocabulary.checksum,
  }


def from_json(content: Mapping[str, Any], folder: pathlib.Path) -> Vocabulary:
  """Inverse of `to_json` for the vocabularies stored in `folder`.

  Manifests of version 0.1, of SentencePiece models alone, say no kind and case.
  """
  path = content["file"]
  if content.get("kind") != files.BYTES:
    path = folder / path
  return Vocabulary(
    path, content["extra_ids"], content.get("lower_case", False)
  )


def _copy(source: str, target: pathlib.Path) -> None:
  """Copies where there is no copy, whole or not at all."""
  if target.exists():
    return
  target.parent.mkdir(parents=True, exist_ok=True)
  temporary = target.with_suffix(f".{os.getpid()}")
  shutil.copyfile(source, temporary)
  os.replace(temporary, target)
