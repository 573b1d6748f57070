"""Runs a mixture's deterministic steps once, into record files.

`zoo train` does this by itself where it has not been done.
"""

import argparse
import os

from transformer_zoo.cli import common

SUMMARY = "tokenize a task or mixture once, into record files"
EXAMPLE = (
  "zoo prepare --mixture miniature --prepared_dir runs/prepared "
  "--data_dir ../shared/data"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the mixture and the folders."""
  parser.add_argument("--mixture", required=True, help="a mixture or a task")
  parser.add_argument("--prepared_dir", required=True, metavar="DIR")
  common.add_task_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints a line for each split that is written, then the totals."""
  from transformer_zoo.data import prepare

  mixture = prepare.prepare(
    arguments.mixture,
    prepared_dir=arguments.prepared_dir,
    data_dir=os.environ.get("ZOO_DATA_DIR") or None,
    report=print,
  )
  for task, rate in zip(mixture.tasks, mixture.rates, strict=True):
    splits = ", ".join(
      f"{name} {split.num_examples:,} examples, {split.num_tokens:,} tokens"
      for name, split in task.splits.items()
    )
    print(f"{task.name} (rate {rate:g}): {splits}")
