"""Lists what there is: tasks, mixtures, architectures, studies or suites."""

import argparse
from typing import Any

from transformer_zoo.cli import common

SUMMARY = "list tasks, mixtures, architectures, studies or suites"
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


def _tasks() -> list[dict[str, Any]]:
  registry = common.registered_tasks().TaskRegistry
  return [
    {"name": name, "summary": ", ".join(registry.get(name).output_features)}
    for name in sorted(registry.names())
  ]


def _mixtures() -> list[dict[str, Any]]:
  registry = common.registered_tasks().MixtureRegistry
  return [
    {
      "name": name,
      "summary": ", ".join(task.name for task in registry.get(name).tasks)
      or "none of its tasks has data on disk",
    }
    for name in sorted(registry.names())
  ]


def _gin_files(folder: str) -> list[dict[str, Any]]:
  """The shipped gin files of a folder with their first comment line."""
  from transformer_zoo.config import reading

  rows = []
  for path in sorted((reading.SHIPPED / folder).glob("*.gin")):
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    summary = first.lstrip("# ") if first.startswith("#") else ""
    gin_file = f"{folder}/{path.name}"
    rows.append({"name": path.stem, "summary": summary, "gin_file": gin_file})
  return rows


def _studies() -> list[dict[str, Any]]:
  from transformer_zoo.ablations import loading

  return loading.listed_studies()


_LISTS = {
  "tasks": _tasks,
  "mixtures": _mixtures,
  "architectures": lambda: _gin_files("architectures"),
  "studies": _studies,
  "suites": lambda: _gin_files("suites"),
}
