"""Shows a mixture: its tasks, their sizes, rates, shares and epochs.

What is not prepared is prepared, as `zoo train` would. A task that cannot be
read is named, and nothing else is printed.
"""

import argparse
import os
import sys

from transformer_zoo.cli import common
from transformer_zoo.cli import completions
from transformer_zoo.data import user_modules
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

SUMMARY = "sizes, rates and expected epochs of the tasks of a mixture"
EXAMPLE = "zoo inspect mixture miniature --steps 350 --batch_size 32"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the mixture, the run it is for, and other rates."""
  name = parser.add_argument("name", metavar="NAME")
  completions.complete(name, "registered", kinds=("mixtures",))
  parser.add_argument("--steps", type=int, help="steps of the run")
  parser.add_argument("--batch_size", type=int, default=128, help="rows a step")
  parser.add_argument(
    "--length",
    default="",
    metavar="inputs=512,targets=84",
    help="examples are packed into rows of these lengths; else one a row",
  )
  parser.add_argument(
    "--maximum", type=float, help="rates by examples with this limit K"
  )
  parser.add_argument(
    "--temperature", type=float, help="rates by examples to the power 1/T"
  )
  parser.add_argument("--prepared_dir", default="runs/prepared", metavar="DIR")
  common.add_task_arguments(parser)
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prepares the mixture and prints a line for each task."""
  from transformer_zoo.data.features import forms

  lengths = common.parse_lengths(arguments.length)
  from transformer_zoo.data.storage import catalogue

  catalogue.check(arguments.name, ["mixture"])
  registry, name = common.registered_tasks().MixtureRegistry, arguments.name
  base, form = forms.split_name(name)
  if base not in registry.names():
    near = nearest(base, registry.names())
    raise UserError(f"no mixture is named {name!r}{near}{user_modules.HINT}")
  from transformer_zoo.data import mixing
  from transformer_zoo.data.loader import mixture_inspection
  from transformer_zoo.data.prepare import preparation

  members = registry.get(base).tasks
  mixture_inspection.check_readable(name, members)
  mixture = preparation.prepare(
    name,
    prepared_dir=arguments.prepared_dir,
    data_dir=os.environ.get("ZOO_DATA_DIR") or None,
    report=lambda line: print(line, file=sys.stderr),
  )
  if arguments.maximum is not None or arguments.temperature is not None:
    rates = mixing.ExamplesProportional(
      arguments.maximum,
      1.0 if arguments.temperature is None else arguments.temperature,
    )
    mixture = mixing.with_rates(mixture, rates)
  declared = {
    forms.name_in_form(task.name, form): getattr(
      task.source, "declared_splits", ()
    )
    for task in members
  }
  found = mixture_inspection.inspect_mixture(
    mixture,
    declared=declared,
    steps=arguments.steps,
    batch_size=arguments.batch_size,
    lengths=lengths,
  )
  if arguments.json:
    common.print_json(found)
  else:
    print(mixture_inspection.as_text(found), end="")
