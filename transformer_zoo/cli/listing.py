"""Lists what there is: tasks, mixtures, architectures, studies and so on."""

import argparse
import itertools
import re
from typing import Any

from transformer_zoo.cli import common

SUMMARY = "list tasks, mixtures, architectures, studies, suites, tables"
EXAMPLE = "zoo list tasks --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds what is listed, the data folders, `--module` and `--json`."""
  parser.add_argument("kind", choices=list(_LISTS))
  common.add_data_argument(parser)
  common.add_module_argument(parser)
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints one line, or one JSON object, for each."""
  rows = _LISTS[arguments.kind]()
  if arguments.json:
    common.print_json(rows)
    return
  width = max((len(row["name"]) for row in rows), default=0)
  for row in rows:
    print(f"{row['name']:{width}}  {row['summary']}".rstrip())


def _registered(kind: str, otherwise: str = "") -> list[dict[str, Any]]:
  from transformer_zoo.data.storage import catalogue

  names = catalogue.load()
  if names is None:
    seqio = common.registered_tasks()
    names = catalogue.names_of(seqio.TaskRegistry, seqio.MixtureRegistry)
  return [
    {"name": name, "summary": ", ".join(parts) or otherwise}
    for name, parts in names[kind].items()
  ]


def _gin_files(folder: str) -> list[dict[str, Any]]:
  """The shipped gin files of a folder with the first sentence of each."""
  from transformer_zoo.config import reading

  rows = []
  for path in sorted((reading.SHIPPED / folder).glob("*.gin")):
    row = {"name": path.stem, "summary": summary(path.read_text("utf-8"))}
    rows.append(row | {"gin_file": f"{folder}/{path.name}"})
  return rows


def summary(source: str) -> str:
  """The first sentence of the comment that a gin file begins with."""
  lines = itertools.takewhile(
    lambda line: line.startswith("# "), source.splitlines()
  )
  comment = " ".join(line.removeprefix("# ") for line in lines)
  return re.split(r"(?<=\.) (?=[A-Z])", comment, maxsplit=1)[0]


def _of_studies(kind: str) -> list[dict[str, Any]]:
  from transformer_zoo.studies import published
  from transformer_zoo.studies.design import loading

  lists = {"studies": loading.listed_studies, "published": published.listed}
  return lists[kind]()


_LISTS = {
  "tasks": lambda: _registered("tasks"),
  "mixtures": lambda: _registered(
    "mixtures", "none of its tasks has data on disk"
  ),
  "architectures": lambda: _gin_files("architectures"),
  "studies": lambda: _of_studies("studies"),
  "suites": lambda: _gin_files("suites"),
  "published": lambda: _of_studies("published"),
}
