"""Commands that run one run alone, as a shell reads them."""

import dataclasses
import pathlib
import shlex

from transformer_zoo.studies.design import planned_run

_FIELDS = [field.name for field in dataclasses.fields(planned_run.Run)]
RUN = planned_run.Run(
  **dict.fromkeys(_FIELDS)
  | {
    "folder": pathlib.Path("runs/runs/a-1"),
    "random_seed": 1000,
    "mixture": "glue",
  }
)


def test_a_training():
  run = dataclasses.replace(RUN, command="train")
  command = planned_run.shell_command(run, ["--data_dir=my data"])
  assert command == (
    "zoo train --gin_file=runs/runs/a-1/run.gin --gin.RANDOM_SEED=1000 "
    "\"--gin.MODEL_DIR='runs/runs/a-1'\" '--data_dir=my data'"
  )
  assert planned_run.with_checkpoints(command, []) == command
  whole = planned_run.with_checkpoints(command, ["runs/b/checkpoints/8"])
  assert whole == (
    f"{command} \"--gin.INITIAL_CHECKPOINT_PATH='runs/b/checkpoints/8'\""
  )


def test_an_ensemble():
  run = dataclasses.replace(RUN, command="evaluate")
  whole = planned_run.with_checkpoints(
    planned_run.shell_command(run, []), ["a/8", "b/4"]
  )
  assert whole == (
    "zoo evaluate --gin_file=runs/runs/a-1/run.gin --mixture=glue "
    "--output_dir=runs/runs/a-1 --checkpoint=a/8 --checkpoint=b/4"
  )


def test_an_evaluation_of_one_checkpoint_is_written_into_the_run_folder():
  run = dataclasses.replace(RUN, command="evaluate")
  whole = planned_run.with_checkpoints(
    planned_run.shell_command(run, []), ["a/8"]
  )
  # A list of checkpoints has no folder of a step, and what comes last counts.
  assert whole.endswith(
    " --output_dir=runs/runs/a-1 --checkpoint=a/8 "
    "\"--gin.CHECKPOINT_PATH=['a/8']\""
  )


def test_words_are_what_they_were():
  words = ["a", "b c", "--gin.X='y'", 'it\'s "$HOME" `now`!', "'\\'"]
  assert shlex.split(planned_run.shell_join(words)) == words
