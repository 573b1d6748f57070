"""Words that a shell completes at the Tab key, as argcomplete asks for them."""

import argparse
from typing import Any


def complete(action: argparse.Action, kind: str, **options: Any) -> None:
  """Lets the words of an argument be completed.

  Args:
    action: The argument.
    kind: A function of this module by its name.
    **options: What the function takes besides.
  """
  action.completer = lambda prefix, **_: globals()[kind](prefix, **options)


def gin_files(prefix: str) -> list[str]:
  """Returns the shipped gin files, and the user's."""
  import argcomplete

  from transformer_zoo.config import reading

  shipped = [
    str(path.relative_to(reading.SHIPPED))
    for path in sorted(reading.SHIPPED.glob("**/*.gin"))
  ]
  return shipped + [*argcomplete.FilesCompleter("gin")(prefix)]


def studies(prefix: str) -> list[str]:
  """Returns the names of studies."""
  del prefix
  from transformer_zoo.studies.design import loading

  return loading.study_names()


def suites(prefix: str) -> list[str]:
  """Returns the names of suites."""
  del prefix
  from transformer_zoo.studies.design import loading

  return loading.suite_names()


def registered(prefix: str, kinds: tuple[str, ...]) -> list[str]:
  """Returns the names of tasks or mixtures, if a catalogue of them is kept."""
  del prefix
  from transformer_zoo.data.storage import catalogue

  names = catalogue.load() or {}
  return [name for kind in kinds for name in names.get(kind, ())]
