"""Modules of the user's own, which register tasks and mixtures.

`zoo --module my_tasks` puts their names into the environment variable
`ZOO_MODULES`, separated by commas; they are imported after the project's tasks.
A run's config.gin has them as T5X's macro `MIXTURE_OR_TASK_MODULE`, which the
configuration hands over here when it is read: nothing is imported on a machine
that trains on what is prepared.
"""

from collections.abc import Sequence
import importlib
import importlib.util
import os
import pathlib
import re
import sys
import traceback

from transformer_zoo.errors import UserError

VARIABLE = "ZOO_MODULES"
# What a name that is not registered may be for want of.
HINT = " (--module names the Python module of a task of your own)"
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def import_all() -> None:
  """Imports the modules; the current folder is the last place on the path.

  Raises:
    UserError: one is missing or raises an error.
  """
  find_in_current_folder()
  for name in names():
    _import(name)


def names() -> list[str]:
  """Returns the names of the modules."""
  return list(filter(None, os.environ.get(VARIABLE, "").split(",")))


def add(modules: Sequence[str]) -> None:
  """Adds modules to those that `import_all` imports."""
  os.environ[VARIABLE] = ",".join(dict.fromkeys([*names(), *modules]))


def command_options() -> list[str]:
  """Returns the options of `zoo` that give this process its tasks."""
  options = [f"--module={name}" for name in names()]
  skips = os.environ.get("ZOO_SKIP_BAD_ROWS") == "1"
  return options + ["--skip_bad_rows"] * skips


def find_in_current_folder() -> None:
  """Appends the current folder to the places where modules are looked for."""
  if os.getcwd() not in sys.path:
    sys.path.append(os.getcwd())


def _import(name: str) -> None:
  """Imports a module; what it raises becomes a UserError with its line."""
  if not _NAME.fullmatch(name) or name.endswith(".py"):
    stem = pathlib.PurePath(name).stem
    raise UserError(
      f"--module {name!r} is no name of a module; write it as in an import, "
      f"such as --module {stem if _NAME.fullmatch(stem) else 'my_tasks'}."
    )
  file = _find(name)
  try:
    importlib.import_module(name)
  except Exception as error:  # A user's module may raise anything.
    text = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    place = f"{name}, line {lines[-1]}" if lines else name
    if not isinstance(error, UserError):
      text = f"{type(error).__name__}: {text}"
    raise UserError(f"--module {place}: {text}") from error


def _find(name: str) -> str | None:
  """Returns the file of a module.

  Raises:
    UserError: there is no such module.
  """
  try:
    spec = importlib.util.find_spec(name)
  except ModuleNotFoundError:  # of the package that it is said to be in
    spec = None
  if spec is None:
    raise UserError(
      f"--module {name!r} is missing: there is no {name.replace('.', '/')}.py "
      f"in the current folder {os.getcwd()!r} or elsewhere on the Python path."
    )
  return spec.origin
