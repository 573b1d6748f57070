"""The loading of studies and suites from gin files."""

from collections.abc import Iterable, Sequence
import dataclasses
import os
import pathlib
from typing import Any

import gin

from transformer_zoo import config
from transformer_zoo.config import reading
from transformer_zoo.config import registry
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Suite

_Paths = Iterable[str | os.PathLike[str]]
_STUDY_FILE = "study.gin"


def load_study(name_or_path: str, search_paths: _Paths = ()) -> Study:
  """Reads a study from its gin file. Gin's configuration is empty afterwards.

  Args:
    name_or_path: The name of a folder in a `studies/` folder, or the path of a
      gin file. It may include others, as
      `include 'studies/quickstart/study.gin'`.
    search_paths: Folders that contain `studies/`, searched before the current
      folder and the gin files that the package ships.

  Returns:
    The study, checked.

  Raises:
    UserError: If the study does not exist, gin cannot parse its file, or the
      study cannot be run as it is written (`Study.check`).
  """
  files = _files(f"studies/*/{_STUDY_FILE}", search_paths)
  return _load("study", name_or_path, files, search_paths)


def load_suite(name_or_path: str, search_paths: _Paths = ()) -> Suite:
  """Reads a suite from its gin file. Gin's configuration is empty afterwards.

  Args:
    name_or_path: The name of a file in a `suites/` folder, without `.gin`, or
      the path of a gin file.
    search_paths: Folders that contain `suites/`, as for `load_study`.

  Returns:
    The suite, checked.

  Raises:
    UserError: If the suite does not exist, gin cannot parse its file, or
      nothing can be run on the suite (`Suite.check`).
  """
  files = _files("suites/*.gin", search_paths)
  return _load("suite", name_or_path, files, search_paths)


def check_names(
  studies: Iterable[str], suite: str | None, search_paths: _Paths = ()
) -> None:
  """Checks the names of studies and of their suite; reads none of them.

  Raises:
    UserError: One does not exist.
  """
  files = _files(f"studies/*/{_STUDY_FILE}", search_paths)
  for name in studies:
    _find("study", name, files, search_paths)
  if suite is not None:
    _find("suite", suite, _files("suites/*.gin", search_paths), search_paths)


def study_names(search_paths: _Paths = ()) -> list[str]:
  """Returns the names that `load_study` knows, sorted."""
  return sorted(_files(f"studies/*/{_STUDY_FILE}", search_paths))


def suite_names(search_paths: _Paths = ()) -> list[str]:
  """Returns the names that `load_suite` knows, sorted."""
  return sorted(_files("suites/*.gin", search_paths))


def listed_studies(search_paths: _Paths = ()) -> list[dict[str, Any]]:
  """Returns the entries of `zoo list` for the studies of `load_study`.

  `summary` is the question, or the reason why the study cannot be run yet.
  """
  listed = []
  for name in study_names(search_paths):
    study = load_study(name, search_paths)
    missing = f"cannot be run yet: {study.missing}" if study.missing else ""
    listed.append(
      {
        "name": name,
        "summary": missing or study.question,
        "question": study.question,
        "missing": study.missing,
        "rows": [row.name for row in study.rows],
      }
    )
  return listed


def _load(kind: str, name_or_path: str, files, search_paths) -> Any:
  path = _find(kind, name_or_path, files, search_paths)
  gin.clear_config()
  try:
    bindings = reading.read_file(str(path), tuple(search_paths))
    for binding in bindings:
      gin.bind_parameter(binding.key, binding.value)
    loaded = gin.get_configurable(kind.capitalize())()
  except (ValueError, TypeError, RuntimeError, SyntaxError, OSError) as error:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise UserError(f"{path} is not a {kind}: {reason[0]}") from error
  finally:
    gin.clear_config()
  loaded = dataclasses.replace(loaded, name=loaded.name or _name_of(path))
  loaded.check()
  _check_scopes(bindings)
  return loaded


def _check_scopes(bindings: Sequence[reading.Binding]) -> None:
  """Raises UserError for `x/Row.label = ...` where no list has `@x/Row()`.

  A file may bind a list anew without an entry of the file that it includes.
  """
  listed = {
    reference.config_key
    for binding in bindings
    for reference in registry.references(binding.value)
  }
  for binding in bindings:
    key = binding.scope, binding.selector
    if binding.selector == reading.MACRO or not binding.scope or key in listed:
      continue
    alike = [scope for scope, kind in listed if kind == binding.selector]
    kind = registry.short_name(binding.selector)
    raise UserError(
      f"{binding.where}: {binding.name} is bound, but no list has "
      f"@{binding.scope}/{kind}(){nearest(binding.scope, alike)}"
    )


def _name_of(path: pathlib.Path) -> str:
  return path.absolute().parent.name if path.name == _STUDY_FILE else path.stem


def _files(pattern: str, search_paths: _Paths) -> dict[str, pathlib.Path]:
  files = {}
  for folder in config.folders(search_paths):
    for path in sorted(pathlib.Path(folder).glob(pattern)):
      files.setdefault(_name_of(path), path)
  return files


def _find(kind: str, name_or_path: str, files, search_paths) -> pathlib.Path:
  path = pathlib.Path(name_or_path)
  if path.suffix == ".gin":
    for folder in config.folders(search_paths):
      if (pathlib.Path(folder) / path).is_file():
        return pathlib.Path(folder) / path
    raise UserError(f"there is no {kind} file {str(path)!r}")
  if name_or_path not in files:
    raise UserError(
      f"unknown {kind} {name_or_path!r}{nearest(name_or_path, files)}"
    )
  return files[name_or_path]
