"""Decodes and scores a split of every task of a mixture with a checkpoint.

Without --gin_file the configuration is the config.gin of the checkpoint's own
run, with runs/evaluate.gin. JSON goes to standard output, progress and a table
to stderr, predictions into the run folder. A killed evaluation continues by
the same command.
"""

import argparse

from transformer_zoo.cli import common
from transformer_zoo.cli import processes

SUMMARY = "score a checkpoint on a mixture"
EXAMPLE = "zoo evaluate --checkpoint runs/first --mixture miniature"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, the mixture, the gin arguments, the data folders."""
  common.add_checkpoint_argument(parser)
  parser.add_argument("--mixture", required=True, help="a mixture or a task")
  parser.add_argument(
    "--split", help="validation by default; test with --submission"
  )
  parser.add_argument(
    "--all_checkpoints",
    action="store_true",
    help="every checkpoint of the run; tells the best per task and per group",
  )
  parser.add_argument(
    "--submission",
    metavar="DIR",
    help="write the files for the GLUE and SuperGLUE servers instead of scores",
  )
  parser.add_argument(
    "--output_dir",
    metavar="DIR",
    help="where predictions go; evaluation/MIXTURE/SPLIT of the run by default",
  )
  common.add_gin_arguments(parser)
  common.add_task_arguments(parser)
  processes.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Loads, evaluates, prints what `evaluate` returns."""
  split = arguments.split or ("test" if arguments.submission else "validation")
  gin_files, extra = common.configuration_of_checkpoint(arguments, "evaluate")
  common.load_gin(
    arguments,
    "evaluate",
    gin_files=gin_files,
    extra=[
      *extra,
      common.checkpoint_binding(arguments),
      f"MIXTURE_OR_TASK_NAME={arguments.mixture!r}",
      f"evaluate.split={split!r}",
      f"evaluate.all_checkpoints={arguments.all_checkpoints}",
      f"evaluate.submission_dir={arguments.submission!r}",
      f"evaluate.output_dir={arguments.output_dir!r}",
    ],
  )
  from transformer_zoo import config

  print(config.call("evaluate"))
