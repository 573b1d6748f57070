"""Runs studies: every row with every seed, then their tables and reports.

Finished runs are reused, also runs of other studies, and unfinished ones are
resumed. --plan prints the runs, their costs and durations, and trains nothing.
Several commands may share the runs of one --output_dir.
"""

import argparse

from transformer_zoo.cli import common
from transformer_zoo.cli import completions
from transformer_zoo.errors import UserError

SUMMARY = "run studies and write their tables and reports"
EXAMPLE = "zoo ablate table6 table7 --suite=miniature --seeds=3 --plan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the options of studies, suites, plans and launchers."""
  add = parser.add_argument
  names = "see `zoo list studies`, or gin files"
  study = add("study", nargs="+", metavar="STUDY", help=names)
  completions.complete(study, "studies")
  suites = "the suite they run on: a name, as miniature, or a gin file"
  suite = add("--suite", default="miniature", metavar="SUITE", help=suites)
  completions.complete(suite, "suites")
  add("--seeds", type=int, metavar="N", help="seeds 0 to N-1 for every row")
  add("--output_dir", default="runs", metavar="DIR")
  common.add_search_paths_argument(parser)
  add(
    "--plan",
    action="store_true",
    help="print the runs with their costs and durations, and run nothing",
  )
  add(
    "--topology",
    help="the TPU slice that --plan estimates for, such as v5e:4x4",
  )
  common.add_json_argument(parser)
  executors = "local; or submitit: SLURM's jobs, else processes of this machine"
  add("--executor", default="local", metavar="NAME", help=executors)
  add(
    "--jobs",
    type=int,
    default=1,
    metavar="N",
    help="the number of runs that are trained at the same time",
  )
  slurm = "option of sbatch: partition, gpus_per_node, time (in minutes), ..."
  add("--slurm", action="append", default=[], metavar="NAME=VALUE", help=slurm)
  common.add_task_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Runs the studies and prints their folders, or prints the plan.

  Raises:
    UserError: If a study cannot be run as it is written, or a run failed.
  """
  if arguments.seeds is not None and arguments.seeds < 1:
    raise UserError(f"--seeds is {arguments.seeds}; it has to be 1 or more")
  for option in ("topology", "json"):
    if getattr(arguments, option) and not arguments.plan:
      raise UserError(f"--{option} is an option of --plan alone")
  from transformer_zoo.studies.design import loading

  search_paths = common.search_paths(arguments)
  loading.check_names(arguments.study, arguments.suite, search_paths)
  from transformer_zoo.studies import runner
  from transformer_zoo.studies.design import request as requests
  from transformer_zoo.studies.execution import plan_report

  seeds = None if arguments.seeds is None else range(arguments.seeds)
  launch = requests.Launch(
    arguments.executor, arguments.jobs, _options(arguments.slurm)
  )
  request = requests.Request(
    names=tuple(arguments.study),
    suite=arguments.suite,
    output_dir=arguments.output_dir,
    seeds=seeds,
    data_dirs=arguments.data_dir,
    search_paths=search_paths,
  )
  if arguments.plan:
    plan_report.show(request, launch, arguments.topology, arguments.json)
    return
  runner.print_outcomes(runner.run_studies(request, launch))


def _options(words: list[str]) -> dict[str, str]:
  for word in filter(lambda word: "=" not in word, words):
    raise UserError(f"--slurm is {word!r}; write it as partition=gpu")
  return dict(word.split("=", 1) for word in words)
