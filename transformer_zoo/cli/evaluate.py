"""Decodes and scores a split of every task of a mixture with a checkpoint.

The configuration is the checkpoint's, then runs/evaluate.gin, then the files of
--gin_file. If these name a model, as a T5X checkpoint needs, the checkpoint's
is left out. JSON goes to standard output, progress and a table to stderr,
predictions into the run folder. A killed evaluation continues by the same
command. --harness scores tasks of lm_eval, and of mteb with an encoder, in the
place of a mixture.
"""

import argparse
import json

from transformer_zoo.api import configurations
from transformer_zoo.cli import checkpoint_arguments
from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "score a checkpoint on a mixture"
EXAMPLE = "zoo evaluate --checkpoint runs/first --mixture miniature"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, the mixture, the gin arguments, the data folders."""
  checkpoint_arguments.add_argument(parser)
  checkpoint_arguments.add_adapter_argument(parser)
  scored = parser.add_mutually_exclusive_group(required=True)
  common.add_mixture_argument(scored, required=False)
  scored.add_argument(
    "--harness",
    metavar="TASKS",
    help="tasks of lm_eval or, with an encoder, of mteb, separated by commas",
  )
  parser.add_argument(
    "--harness_tasks", metavar="DIR", help="a folder of further lm_eval tasks"
  )
  parser.add_argument(
    "--num_fewshot",
    type=int,
    metavar="N",
    help="examples before each question of lm_eval; the tasks' own by default",
  )
  parser.add_argument(
    "--split",
    help="the split to evaluate: validation by default, test with --submission",
  )
  parser.add_argument(
    "--all_checkpoints",
    action="store_true",
    help=(
      "evaluate every checkpoint of the run, and print the best one for "
      "each task and group"
    ),
  )
  parser.add_argument(
    "--average",
    type=int,
    metavar="N",
    help="score the mean of the last N checkpoints of the run",
  )
  parser.add_argument(
    "--submission",
    metavar="DIR",
    help="write the files for the GLUE and SuperGLUE servers instead of scores",
  )
  parser.add_argument(
    "--output_dir",
    metavar="DIR",
    help="the folder to write predictions to; evaluation/MIXTURE/SPLIT of the "
    "run by default",
  )
  common.add_gin_arguments(parser)
  common.add_task_arguments(parser)
  common.add_process_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Loads, evaluates, prints what `evaluate` returns.

  With adapters it is one line of JSON for each, after its name and a tab.

  Raises:
    UserError: Several adapters are to write into one folder.
  """
  if len(arguments.adapter) > 1 and (
    arguments.output_dir or arguments.submission
  ):
    raise UserError(
      "--output_dir and --submission hold the files of one model; name one "
      "--adapter"
    )
  evaluated = _evaluated if arguments.harness is None else _by_harness
  for name, of_one in checkpoint_arguments.of_each_adapter(arguments):
    result = evaluated(of_one)
    if name is None:
      print(result)
    else:
      print(f"{name}\t{json.dumps(json.loads(result))}", flush=True)


def _evaluated(arguments: argparse.Namespace) -> str:
  split = arguments.split or ("test" if arguments.submission else "validation")
  found = checkpoint_arguments.configuration(arguments, "evaluate")
  from transformer_zoo.checkpoints import generation_config

  common.load_gin(
    arguments,
    "evaluate",
    gin_files=found.gin_files,
    defaults=found.defaults,
    extra=[
      *found.overrides,
      configurations.binding(arguments.checkpoint),
      *generation_config.instead(arguments.overrides),
      f"MIXTURE_OR_TASK_NAME={arguments.mixture!r}",
      f"evaluate.split={split!r}",
      f"evaluate.all_checkpoints={arguments.all_checkpoints}",
      f"evaluate.average={arguments.average}",
      f"evaluate.submission_dir={arguments.submission!r}",
      f"evaluate.output_dir={arguments.output_dir!r}",
    ],
  )
  from transformer_zoo import config

  return config.call("evaluate")


def _by_harness(arguments: argparse.Namespace) -> str:
  for name in ("split", "all_checkpoints", "average", "submission"):
    if getattr(arguments, name):
      raise UserError(
        f"--{name} is for mixtures; leave it out, or name a --mixture in the "
        "place of --harness"
      )
  arguments.vocabulary = None
  checkpoint_arguments.load_for_inference(arguments)
  from transformer_zoo import config
  from transformer_zoo.api.harness import harness
  from transformer_zoo.api.model import Model

  inference = config.call("infer")
  inference.check()
  result = harness(
    Model(inference),
    arguments.harness.split(","),
    harness_tasks=arguments.harness_tasks,
    num_fewshot=arguments.num_fewshot,
    output_dir=arguments.output_dir,
  )
  return json.dumps(result, indent=2)
