"""Shows what a task gives: examples as text and ids, forms, lengths."""

import argparse
from typing import Any

from transformer_zoo.cli import common
from transformer_zoo.cli import completions

SUMMARY = "examples of a task, how long they are, how many are truncated"
EXAMPLE = "zoo inspect task mini_sst2 -n 2 --length inputs=64,targets=8"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the task and how much of it is read."""
  name = parser.add_argument("name", metavar="NAME")
  completions.complete(name, "registered", kinds=("tasks",))
  parser.add_argument("-n", type=int, default=5, help="examples shown")
  parser.add_argument("--split", default="train")
  parser.add_argument(
    "--length",
    default="",
    metavar="inputs=512,targets=114",
    help="lengths for which the truncated share is printed",
  )
  parser.add_argument(
    "--examples", type=int, default=1000, help="examples that are measured"
  )
  parser.add_argument(
    "--prepared_dir",
    metavar="DIR",
    help="the folder of the prepared data, which is described",
  )
  common.add_task_arguments(parser)
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints the examples, then a line of quantiles for each feature."""
  lengths = common.parse_lengths(arguments.length)
  from transformer_zoo.data.storage import catalogue

  catalogue.check(arguments.name, ["task"])
  common.registered_tasks()
  from transformer_zoo.data.prepare import inspection
  from transformer_zoo.data.prepare import preparation

  task = inspection.registered_task(arguments.name)
  with common.quiet_stderr():
    found = inspection.inspect_task(
      task,
      split=arguments.split,
      lengths=lengths,
      shown=arguments.n,
      measured=arguments.examples,
    )
  found["forms"] = preparation.find_forms(arguments.name)
  splits = {}
  if arguments.prepared_dir:
    from transformer_zoo.data.storage import manifest

    prepared = manifest.load_task(arguments.name, arguments.prepared_dir)
    splits = {name: s.summary() for name, s in prepared.splits.items()}
    found["prepared"] = splits
  if arguments.json:
    common.print_json(found)
    return
  for number, example in enumerate(found["examples"], start=1):
    for feature, shown in example.items():
      print(f"{number} {feature}: {shown['text']}")
      if shown["ids"]:
        print(f"{number} {feature} ids: {' '.join(map(str, shown['ids']))}")
  if found["skipped"]:
    print(f"skipped {len(found['skipped'])} bad rows: {found['skipped'][0]}")
  if found["files"]["number"]:
    number, size = found["files"]["number"], found["files"]["bytes"]
    print(f"{arguments.split}: {number} files, {size / 1e6:.1f} MB")
  for name, summary in splits.items():
    print(f"prepared {name}: {summary}")
  for form in found["forms"]:
    print(f"form {form['form']}: {form['task']}{_names_of(form)}")
  for feature, measured in found["features"].items():
    print(f"{feature}: {_lengths_line(measured, found['measured'])}")


def _names_of(form: dict[str, Any]) -> str:
  names = form.get("classes") or form.get("tags")
  return f" ({', '.join(names)})" if names else ""


def _lengths_line(measured: dict[str, Any], count: int) -> str:
  quantiles = ", ".join(
    f"{name} {value}" for name, value in measured["quantiles"].items()
  )
  share = measured.get("truncated")
  truncated = "" if share is None else f"; {share:.1%} are truncated"
  return f"length of {count} examples: {quantiles}{truncated}"
