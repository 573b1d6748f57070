"""Commands that run one run alone, as a shell reads them."""

import dataclasses
import pathlib
import shlex

from transformer_zoo.studies.design import commands
from transformer_zoo.studies.design import plan

_FIELDS = [field.name for field in dataclasses.fields(plan.Run)]
RUN = plan.Run(
  **dict.fromkeys(_FIELDS)
  | {
    "folder": pathlib.Path("runs/runs/a-1"),
    "random_seed": 1000,
    "mixture": "glue",
  }
)


def test_a_training():
  run = dataclasses.replace(RUN, command="train")
  command = commands.of_run(run, ["--data_dir=my data"])
  assert command == (
    "zoo train --gin_file=runs/runs/a-1/run.gin --gin.RANDOM_SEED=1000 "
    "\"--gin.MODEL_DIR='runs/runs/a-1'\" '--data_dir=my data'"
  )
  assert commands.with_checkpoints(command, []) == command
  whole = commands.with_checkpoints(command, ["runs/b/checkpoints/8"])
  assert whole == (
    f"{command} \"--gin.INITIAL_CHECKPOINT_PATH='runs/b/checkpoints/8'\""
  )


def test_an_ensemble():
  run = dataclasses.replace(RUN, command="evaluate")
  whole = commands.with_checkpoints(commands.of_run(run, []), ["a/8", "b/4"])
  assert whole == (
    "zoo evaluate --gin_file=runs/runs/a-1/run.gin --mixture=glue "
    "--output_dir=runs/runs/a-1 --checkpoint=a/8 --checkpoint=b/4"
  )


def test_an_evaluation_of_one_checkpoint_is_written_into_the_run_folder():
  run = dataclasses.replace(RUN, command="evaluate")
  whole = commands.with_checkpoints(commands.of_run(run, []), ["a/8"])
  # A list of checkpoints has no folder of a step, and what comes last counts.
  assert whole.endswith(
    " --output_dir=runs/runs/a-1 --checkpoint=a/8 "
    "\"--gin.CHECKPOINT_PATH=['a/8']\""
  )


def test_words_are_what_they_were():
  words = ["a", "b c", "--gin.X='y'", 'it\'s "$HOME" `now`!', "'\\'"]
  assert shlex.split(commands.join(words)) == words
