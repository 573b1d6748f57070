"""Lists the checkpoints of a run with their sizes, scores and the best.

--verify reads every file and compares it with its checksum. The exit code is 1
if a checkpoint is damaged.
"""

import argparse

from transformer_zoo.cli import common

SUMMARY = "checkpoints: list and verify the checkpoints of a run"
EXAMPLE = "zoo checkpoints runs/first --verify"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the run, `--verify` and `--json`."""
  parser.add_argument(
    "run_folder", metavar="RUN", help="a run folder, or a URL of one"
  )
  parser.add_argument(
    "--verify",
    action="store_true",
    help="read every file and compare it with its checksum",
  )
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
  """Prints a line for each checkpoint."""
  from transformer_zoo.runs import checkpoint_list

  found = checkpoint_list.of_run(arguments.run_folder, arguments.verify)
  if arguments.json:
    common.print_json(checkpoint_list.to_json(found))
  else:
    print(checkpoint_list.as_text(found))
  return int(any(entry.is_damaged for entry in found))
