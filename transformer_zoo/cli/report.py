"""Reads the folder of a study, also while its runs run.

Prints how far each run has come and the table of what is finished; writes the
tables, the statistics and `report.html` anew (docs/reports.md).
"""

import argparse

from transformer_zoo.cli import common

SUMMARY = "read a study's folder while its runs run, and write its report"
EXAMPLE = "zoo report runs/quickstart"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the folder and the form."""
  parser.add_argument(
    "folder", metavar="DIR", help="a study's, as `zoo ablate` printed it"
  )
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints states and table; with --json the states alone, writing nothing.

  Raises:
    UserError: the folder holds no study, or a file in it is damaged.
  """
  from transformer_zoo.ablations import analysis
  from transformer_zoo.ablations import report
  from transformer_zoo.ablations import results
  from transformer_zoo.ablations import table

  study = results.read(arguments.folder)
  if arguments.json:
    states = [
      {"run": run.name, "state": run.state, "reason": run.reason}
      for run in study.runs
      if not run.shared
    ]
    common.print_json(states)
    return
  found = analysis.analyse(study)
  text = table.write(found)
  page = report.write(found)
  print(text)
  print(page)
