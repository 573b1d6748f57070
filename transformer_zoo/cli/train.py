"""Trains as gin says; started again, it goes on where it was.

Data that is not prepared is prepared first. The last line printed is the path
of the run's result.json.
"""

import argparse

from transformer_zoo.cli import common

SUMMARY = "train: pre-train or fine-tune, as the gin files say"
EXAMPLE = (
  "zoo train --gin_file=runs/miniature_pretrain.gin --gin.TRAIN_STEPS=1000 "
  "--gin.MODEL_DIR=\"'runs/first'\""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the gin arguments and the data folders."""
  common.add_gin_arguments(parser)
  common.add_task_arguments(parser)
  common.add_process_arguments(parser)
  parser.add_argument(
    "--profile",
    metavar="STEPS",
    help="take a trace of steps, as 10:13, into <run>/profile/",
  )


def run(arguments: argparse.Namespace) -> None:
  """Loads, trains, prints where the result is."""
  profiled = [f"PROFILE={arguments.profile!r}"] if arguments.profile else []
  common.load_gin(arguments, "train", extra=profiled)
  from transformer_zoo import config

  print(config.call("train"))
