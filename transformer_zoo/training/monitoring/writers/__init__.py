"""Writers of a run's numbers to services, besides its own files.

A writer is bound by gin (`WRITERS = [@WeightsAndBiases()]`) and opened by the
run. What it opens is a session with

    scalars(step, values)   numbers by name
    restart(step)           what is known from `step` on will come again
    close()                 may wait until everything is written
"""

from collections.abc import Callable, Mapping
import importlib
import pathlib
import re
from typing import Any, Protocol

from transformer_zoo.errors import UserError

_MACRO = re.compile(r"^([A-Z][A-Z0-9_]*) = (.*)$", re.MULTILINE)


class Session(Protocol):
  """An open writer."""

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Writes numbers of a step."""

  def restart(self, step: int) -> None:
    """Tells that a resumed run will write again from `step` on."""

  def close(self) -> None:
    """Ends the session."""


class Writer(Protocol):
  """A service that gin binds, before a session is open."""

  def check(self) -> None:
    """Raises UserError where its package is not installed."""

  def open(self, folder: pathlib.Path) -> Session:
    """Opens a session for the run of a folder.

    Args:
      folder: The run folder; its `config.gin` is the configuration of the run.

    Raises:
      UserError: as `check`, or it cannot be reached.
    """


def package(name: str, writer: str) -> Any:
  """Imports what a writer needs.

  Args:
    name: The name of the package.
    writer: The name of the writer in the configuration.

  Raises:
    UserError: it is not installed.
  """
  try:
    return importlib.import_module(name)
  except ImportError:
    raise UserError(
      f"the writer {writer} needs the package {name}: install "
      "transformer_zoo[watch], or take it out of WRITERS"
    ) from None


def identity(
  folder: pathlib.Path, service: str, make: Callable[[], str]
) -> str:
  """The name of a run in a service, made once and kept in its folder.

  Args:
    folder: The run folder.
    service: names the file.
    make: gives a name; called for a run that has none.
  """
  path = folder / f"{service}_run.txt"
  if not path.exists():
    path.write_text(f"{make()}\n", encoding="utf-8")
  return path.read_text(encoding="utf-8").strip()


def settings(folder: pathlib.Path) -> dict[str, str]:
  """The macros of a run by name, as its config.gin writes them.

  Args:
    folder: The run folder.
  """
  path = folder / "config.gin"
  text = path.read_text(encoding="utf-8") if path.exists() else ""
  return dict(_MACRO.findall(text))
