"""Trains as gin says; started again, it goes on where it was.

Data that is not prepared is prepared first. The last line printed is the path
of the run's result.json.
"""

import argparse
import pathlib

from transformer_zoo.api import configurations
from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "train: pre-train or fine-tune, as the gin files say"
EXAMPLE = (
  "zoo train --gin_file=runs/miniature_pretrain.gin --gin.TRAIN_STEPS=1000 "
  "--gin.MODEL_DIR=\"'runs/first'\""
)

# The macros that each run of `--seeds` has of its own.
_OWN = ("RANDOM_SEED=", "MODEL_DIR=")


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
  parser.add_argument(
    "--seeds",
    type=int,
    metavar="N",
    help="train N seeds from RANDOM_SEED on, each in <MODEL_DIR>/seed_K, and "
    "write their median to <MODEL_DIR>/seeds.json",
  )
  parser.add_argument(
    "--restarts",
    type=int,
    default=0,
    metavar="N",
    help="with --seeds: start at most N degenerate runs again with other seeds",
  )


def run(arguments: argparse.Namespace) -> None:
  """Loads, trains, prints where the result is."""
  if arguments.seeds is None and arguments.restarts:
    raise UserError("--restarts needs --seeds, the number of runs that count")
  given = common.of_user(arguments)
  with configurations.of_initial_checkpoint(given) as found:
    _run(arguments, found)


def _run(
  arguments: argparse.Namespace, found: configurations.Configuration
) -> None:
  extra = [f"PROFILE={arguments.profile!r}"] if arguments.profile else []

  def load() -> None:
    common.load_gin(
      arguments,
      "train",
      gin_files=found.gin_files,
      extra=extra,
      defaults=found.defaults,
    )

  load()
  if classes := configurations.classes_of_the_task(arguments.overrides):
    extra += classes
    load()
  from transformer_zoo import config

  if arguments.seeds is None:
    print(config.call("train"))
    return
  from transformer_zoo.processes import distributed
  from transformer_zoo.runs import reuse
  from transformer_zoo.runs import seeds

  model_dir = config.value("MODEL_DIR")
  if "://" in model_dir or distributed.is_initialized():
    raise UserError(
      "--seeds reads the results of its runs from a local folder, in one "
      f"process; MODEL_DIR is {model_dir!r}: start a run for each RANDOM_SEED "
      "instead"
    )
  given = arguments.overrides

  def train(seed: int, folder: pathlib.Path) -> None:
    own = [f"RANDOM_SEED={seed}", f"MODEL_DIR={str(folder)!r}"]
    arguments.overrides = [
      *(text for text in given if not text.startswith(_OWN)),
      *own,
    ]
    load()
    config.call("train")

  with reuse.reused():
    path = seeds.train(
      train,
      pathlib.Path(model_dir),
      first_seed=config.value("RANDOM_SEED"),
      seeds=arguments.seeds,
      restarts=arguments.restarts,
    )
  print(path)
