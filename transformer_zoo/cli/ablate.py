"""Runs a study: every row, every seed; then the table and the report.

Finished runs are reused, unfinished ones go on where they were. Runs can be
spread over processes (--launcher local) or jobs of a cluster (slurm); several
launchers of one study share its runs.
"""

import argparse

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "run a study and write its table and report"
EXAMPLE = "zoo ablate quickstart --seeds 3 --output_dir runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the study, the seeds and the folders."""
  parser.add_argument(
    "study", metavar="STUDY", help="see `zoo list studies`, or a gin file"
  )
  parser.add_argument(
    "--suite",
    default="miniature",
    metavar="SUITE",
    help="what it is run on: miniature, small, paper, or a gin file",
  )
  parser.add_argument(
    "--seeds", type=int, metavar="N", help="seeds 0 to N-1 for every row"
  )
  parser.add_argument("--output_dir", default="runs", metavar="DIR")
  parser.add_argument(
    "--gin_search_paths",
    default="",
    metavar="DIRS",
    help="folders with gin files, separated by commas; looked at first",
  )
  parser.add_argument(
    "--launcher",
    choices=("none", "local", "slurm"),
    default="none",
    help="where runs are trained: in turn here, in processes, by SLURM",
  )
  parser.add_argument(
    "--jobs", type=int, default=1, metavar="N", help="runs at once"
  )
  parser.add_argument(
    "--slurm",
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="option of sbatch: partition, gpus_per_node, time (in minutes), ...",
  )
  common.add_task_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Runs the study and prints its folder.

  Raises:
    UserError: the study cannot be run as it is written, or a run failed.
  """
  if arguments.seeds is not None and arguments.seeds < 1:
    raise UserError(f"--seeds is {arguments.seeds}; it has to be 1 or more")
  from transformer_zoo.ablations import runner

  seeds = None if arguments.seeds is None else range(arguments.seeds)
  outcome = runner.run_study(
    arguments.study,
    suite=arguments.suite,
    output_dir=arguments.output_dir,
    seeds=seeds,
    data_dirs=arguments.data_dir,
    search_paths=common.search_paths(arguments),
    launch=runner.Launch(
      arguments.launcher, arguments.jobs, _options(arguments.slurm)
    ),
  )
  print(outcome.folder)
  if outcome.failures:
    raise UserError("; ".join(outcome.failures))


def _options(words: list[str]) -> dict[str, str]:
  for word in filter(lambda word: "=" not in word, words):
    raise UserError(f"--slurm is {word!r}; write it as partition=gpu")
  return dict(word.split("=", 1) for word in words)
