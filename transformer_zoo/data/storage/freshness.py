"""Stamps of prepared data, which show without SeqIO that it is current.

Whether prepared records are current follows from the definitions of their
tasks. To read these, SeqIO and TensorFlow are imported. `save` notes all that
the definitions depend on: the files and folders of the raw data, the sources
that were imported, the versions of libraries and the environment. While none
of it changes, `load` returns the prepared mixture at once.
"""

from collections.abc import Collection, Iterator, Mapping
import importlib.metadata
import json
import os
import pathlib
import sys
import sysconfig
from typing import Any

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

_FORMAT = 1
_LIBRARIES = (
  *("seqio", "tensorflow", "tensorflow-datasets", "tensorflow-text"),
  *("sentencepiece", "tokenizers"),
)
# Variables that name raw data, without the prefix of ours.
_VARIABLES = ("HOME", "TFDS_DATA_DIR")
# Larger data folders are not walked at each start; they get no stamp.
_MOST_FOLDERS = 5000
_OURS = ("mixtures", "tasks", "transformer_zoo")
# `sysconfig` makes them anew at each call.
_LIBRARY_FOLDERS = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))


def save(
  mixture: manifest.PreparedMixture,
  prepared_dir: str | os.PathLike[str],
  files: Collection[str],
  splits: Collection[str] | None = None,
) -> None:
  """Notes that a mixture is current.

  Args:
    mixture: The prepared mixture or task.
    prepared_dir: The folder of prepared data.
    files: The paths of the files of raw data.
    splits: The splits that were prepared; None for all of each task.
  """
  noted = stamp(files)
  path = _path(mixture.name, prepared_dir)
  if noted["data"] is None:
    path.unlink(missing_ok=True)
    return
  splits = None if splits is None else sorted(splits)
  definitions = _definitions(mixture)
  write_json(
    path, {"splits": splits, "definitions": definitions, "stamp": noted}
  )


def load(
  name: str,
  prepared_dir: str | os.PathLike[str],
  required_splits: Collection[str] = (),
  splits: Collection[str] | None = None,
) -> manifest.PreparedMixture | None:
  """Returns a prepared mixture that is current and undamaged.

  Args:
    name: The name of a mixture or task.
    prepared_dir: The folder of prepared data.
    required_splits: Splits that at least one of its tasks must have.
    splits: The splits that must be current; None for all of each task.

  Returns:
    The mixture; None if it has no stamp, something has changed since, its files
    are damaged or a split is missing.
  """
  try:
    noted = json.loads(_path(name, prepared_dir).read_text(encoding="utf-8"))
    prepared, definitions = noted["splits"], noted["definitions"]
    current = is_current(noted["stamp"])
  except (OSError, ValueError, TypeError, KeyError):
    return None
  if not current:
    return None
  if prepared is not None and (
    splits is None or not set(prepared).issuperset(splits)
  ):
    return None
  try:
    mixture = manifest.load(name, prepared_dir)
    # A task may have been prepared anew by itself.
    if _definitions(mixture) != definitions:
      return None
    for task in mixture.tasks:
      for split in task.splits:
        task.record_files(split)
        for table in task.splits[split].tables:
          task.table(split, table)
  except (UserError, TypeError, KeyError):  # `prepare` mends or explains it.
    return None
  splits = {split for task in mixture.tasks for split in task.splits}
  return mixture if splits.issuperset(required_splits) else None


def stamp(files: Collection[str] = ()) -> dict:
  """Returns all that the definitions of the registered tasks depend on.

  Args:
    files: The paths of the files of raw data.
  """
  code = {
    str(path)
    for module in [*sys.modules.values()]
    if (path := getattr(module, "__file__", None)) and _is_watched(module)
  }
  parents = {os.path.dirname(os.path.abspath(file)) for file in files}
  return {
    **_surroundings(),
    "files": {path: _status(path) for path in sorted({*files, *code})},
    "folders": {path: _status(path) for path in sorted(parents)},
  }


def is_current(noted: Mapping) -> bool:
  """Returns whether nothing has changed since `stamp` noted it."""
  try:
    rest = dict(noted)
    paths = {**rest.pop("files"), **rest.pop("folders")}
  except (KeyError, TypeError, ValueError):
    return False
  return (
    rest == _surroundings()
    and rest["data"] is not None
    and all(_status(path) == status for path, status in paths.items())
  )


def write_json(path: pathlib.Path, value: Any) -> None:
  """Writes a file so that several processes may write it at once."""
  temporary = path.with_name(f"{path.name}.{os.getpid()}")
  temporary.write_text(json.dumps(value), encoding="utf-8")
  os.replace(temporary, path)


def _surroundings() -> dict:
  """Returns all that task definitions depend on besides known files."""
  values = {
    name: value
    for name, value in sorted(os.environ.items())
    if name.startswith("ZOO_")
    and name != "ZOO_HUGE_PAGES"
    or name in _VARIABLES
  }
  named = {
    path: _status(path)
    for value in values.values()
    for path in value.split(os.pathsep)
    if os.path.isfile(path)
  }
  return {
    "format": _FORMAT,
    "python": sys.version,
    "folder": os.getcwd(),
    "environment": values,
    "named": named,
    "libraries": {name: _version(name) for name in _LIBRARIES},
    "data": _data_folders(values.get("ZOO_DATA_DIR", "")),
  }


def _data_folders(variable: str) -> dict | None:
  """The status of all folders of raw data; None if there are too many.

  A folder changes when a file is added to it or removed. Vocabularies are
  noted as files, since nothing else describes them.
  """
  found = {}
  for root in filter(None, variable.split(os.pathsep)):
    for folder, names in _walk(root):
      if len(found) > _MOST_FOLDERS:
        return None
      found[folder] = _status(folder)
      if "vocab" in pathlib.PurePath(folder).parts:
        paths = [os.path.join(folder, name) for name in names]
        found |= {path: _status(path) for path in paths}
  return found


def _walk(root: str) -> Iterator[tuple[str, list[str]]]:
  for folder, _, names in os.walk(root, followlinks=True):
    yield folder, names


def _is_watched(module) -> bool:
  """Whether a module may define tasks: one of ours, or of no library."""
  if module.__name__.partition(".")[0] in _OURS:
    return True
  if module.__name__.startswith("__autograph_generated_file"):  # TensorFlow's
    return False
  path = os.path.abspath(module.__file__)
  return not path.startswith(_LIBRARY_FOLDERS)


def _status(path: str) -> list[int] | None:
  try:
    status = os.stat(path)
  except OSError:
    return None
  return [status.st_size, status.st_mtime_ns]


def _version(library: str) -> str | None:
  try:
    return importlib.metadata.version(library)
  except importlib.metadata.PackageNotFoundError:
    return None


def _definitions(mixture: manifest.PreparedMixture) -> dict[str, str]:
  return {task.name: task.definition for task in mixture.tasks}


def _path(name: str, prepared_dir: str | os.PathLike[str]) -> pathlib.Path:
  folder = manifest.folder_of(name, prepared_dir)
  return folder.with_name(f".{name}.current.json")
