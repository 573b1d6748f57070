"""The folders that `prepare` writes: reused, locked, replaced as a whole."""

from collections.abc import Iterator
import contextlib
import fcntl
import pathlib
import shutil
from typing import Any

from transformer_zoo.data import vocabularies
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import storage
from transformer_zoo.errors import UserError


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


def store_vocabulary(
  task: Any, prepared_dir: pathlib.Path
) -> vocabularies.Vocabulary:
  """Returns the vocabulary of a `seqio.Task`, copied to the prepared folder.

  Raises:
    UserError: it is absent, damaged, not the same for all features, or of two
      languages and reads the targets as if they were inputs.
  """
  found = {
    vocabularies.from_seqio(feature.vocabulary)
    for feature in task.output_features.values()
  }
  if len(found) != 1:
    raise UserError(
      f"Task {task.name!r} has features with different vocabularies; one model "
      "has one vocabulary."
    )
  vocabulary = found.pop()
  _check_targets(task, vocabulary)
  return storage.store(vocabulary, prepared_dir / "vocabularies")


def _check_targets(task: Any, vocabulary: vocabularies.Vocabulary) -> None:
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
