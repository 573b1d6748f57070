"""Runs a mixture's deterministic steps once, into record files.

`zoo train` does this by itself where it has not been done.
"""

import argparse
import os

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "tokenize a task or mixture once, into record files"
EXAMPLE = (
  "zoo prepare --mixture miniature --prepared_dir runs/prepared --data_dir DATA"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the mixture and the folders."""
  common.add_mixture_argument(parser)
  parser.add_argument("--prepared_dir", required=True, metavar="DIR")
  parser.set_defaults(takes_more=True)
  parser.add_argument(
    "--processes",
    type=int,
    metavar="N",
    help="that write shards; as many as there are cores by default",
  )
  parser.add_argument(
    "--beam_runner",
    metavar="NAME",
    help="write the shards on a runner of Apache Beam: local, or its name; "
    "flags that are not listed here go to Beam",
  )
  common.add_task_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints a line for each split that is written, then the totals."""
  from transformer_zoo.data.storage import catalogue

  if arguments.more and arguments.beam_runner is None:
    raise UserError(
      f"{arguments.more[0]!r} is no argument of `zoo prepare`; flags for Beam "
      "need --beam_runner."
    )
  catalogue.check(arguments.mixture)
  from transformer_zoo.data.prepare import preparation

  mixture = preparation.prepare(
    arguments.mixture,
    prepared_dir=arguments.prepared_dir,
    data_dir=os.environ.get("ZOO_DATA_DIR") or None,
    processes=arguments.processes,
    beam_runner=arguments.beam_runner,
    beam_options=arguments.more,
    report=print,
  )
  for task, rate in zip(mixture.tasks, mixture.rates, strict=True):
    print(f"{task.name} (rate {rate:g}):")
    for name, split in task.splits.items():
      print(f"  {name}: {split.summary()}")
