"""The folders that `prepare` writes: reused, locked, replaced as a whole."""

from collections.abc import Iterator
import contextlib
import fcntl
import os
import pathlib
import shutil
from typing import Any

from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import from_seqio
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

_SUFFIX = {
  "sentencepiece": ".model",
  "wordpiece": ".txt",
  "tokenizer_json": ".json",
}


def find_reusable(
  template: manifest.PreparedTask, prepared_dir: pathlib.Path
) -> manifest.PreparedTask | None:
  """Returns the task prepared earlier if it is whole and of one definition."""
  try:
    old = manifest.load_task(template.name, prepared_dir)
    if old.definition != template.definition or old.kind != template.kind:
      return None
    for split in old.splits:
      old.record_files(split)
      for table in old.splits[split].tables:
        old.table(split, table)
  except (UserError, TypeError, KeyError):  # absent, damaged or foreign
    return None
  return old


def store_vocabulary(task: Any, prepared_dir: pathlib.Path) -> Vocabulary:
  """Returns the vocabulary of a `seqio.Task`, copied to the prepared folder.

  Raises:
    UserError: it is absent, damaged, not the same for all features, or of two
      languages and reads the targets as if they were inputs.
  """
  found = {
    from_seqio(feature.vocabulary) for feature in task.output_features.values()
  }
  if len(found) != 1:
    raise UserError(
      f"Task {task.name!r} has features with different vocabularies; one model "
      "has one vocabulary."
    )
  vocabulary = found.pop()
  _check_targets(task, vocabulary)
  return copy_vocabulary(vocabulary, prepared_dir / manifest.VOCABULARIES)


def copy_vocabulary(vocabulary: Vocabulary, folder: pathlib.Path) -> Vocabulary:
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
  is_of_class = len(found.paths) > 1 and vocabulary.tokenizer_class
  for name in files.SAYING if vocabulary.is_stated or is_of_class else ():
    if os.path.isfile(os.path.join(beside, name)):
      yield os.path.join(beside, name)


def _copy(source: str, target: pathlib.Path) -> None:
  """Copies where there is no copy, whole or not at all."""
  if target.exists():
    return
  target.parent.mkdir(parents=True, exist_ok=True)
  temporary = target.with_suffix(f".{os.getpid()}")
  shutil.copyfile(source, temporary)
  os.replace(temporary, target)


def _check_targets(task: Any, vocabulary: Vocabulary) -> None:
  """Nothing later shows by which of two languages' pieces a text was cut."""
  targets = task.output_features.get("targets")
  if targets is None or vocabulary.kind != "marian":
    return
  if not getattr(targets.vocabulary, "of_targets", False):
    raise UserError(
      f"Task {task.name!r} would cut its targets by source.spm, the pieces of "
      "what is read; give the feature 'targets' the vocabulary "
      "Vocabulary(path).to_seqio(of_targets=True), or take both features from "
      "tasks.vocabulary.features(path)."
    )


def move(source: pathlib.Path, target: pathlib.Path) -> None:
  """Renames a finished folder to `target`, replacing an older folder."""
  retired = target.with_name(f".{target.name}.retired")
  shutil.rmtree(retired, ignore_errors=True)  # of a killed process
  if target.exists():
    target.rename(retired)
  source.rename(target)
  shutil.rmtree(retired, ignore_errors=True)


@contextlib.contextmanager
def lock(path: pathlib.Path) -> Iterator[None]:
  """Holds the lock file `path`; the system frees it when the process ends."""
  with open(path, "w", encoding="utf-8") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
