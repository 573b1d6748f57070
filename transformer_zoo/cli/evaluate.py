"""Decodes and scores the validation splits of a mixture with a checkpoint.

Without --gin_file the configuration is the config.gin of the checkpoint's own
run, with runs/evaluate.gin.
"""

import argparse

from transformer_zoo.cli import common

SUMMARY = "score a checkpoint on a mixture"
EXAMPLE = "zoo evaluate --checkpoint runs/first --mixture miniature"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, the mixture, the gin arguments, the data folders."""
  parser.add_argument("--checkpoint", required=True, metavar="DIR")
  parser.add_argument("--mixture", required=True, help="a mixture or a task")
  common.add_gin_arguments(parser)
  common.add_task_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Loads, evaluates, prints what `evaluate` returns."""
  common.load_gin(
    arguments,
    "evaluate",
    gin_files=common.files_of_checkpoint(arguments, "evaluate"),
    extra=[
      f"CHECKPOINT_PATH={arguments.checkpoint!r}",
      f"MIXTURE_OR_TASK_NAME={arguments.mixture!r}",
    ],
  )
  from transformer_zoo import config

  print(config.call("evaluate"))
