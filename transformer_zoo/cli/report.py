"""Reads the folder of a study and writes its tables and its page again.

The table of the finished runs is printed, also while others run; the tables,
the statistics and `report.html` are written. For the folder above several
studies this is done for each of them, and `index.html` and `index.md` are
written (docs/guides/reports.md). A study that cannot be read is named after the
others.
"""

import argparse

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "read a study's folder while its runs run, and write its report"
EXAMPLE = "zoo report runs/quickstart-miniature"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the folder and `--json`."""
  parser.add_argument(
    "folder",
    metavar="DIR",
    help="the folder of a study, as `zoo ablate` printed it, or of several",
  )
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints the table and writes the files; with --json prints JSON alone.

  Raises:
    UserError: The folder holds no study, studies of different versions of a
      suite, or a damaged file. The reports of other studies than damaged ones
      are written before.
  """
  from transformer_zoo.studies.execution import results
  from transformer_zoo.studies.report import files
  from transformer_zoo.studies.report import index
  from transformer_zoo.studies.report import report
  from transformer_zoo.studies.statistics.analysis import analyse

  is_one = results.is_study(arguments.folder)
  read = [arguments.folder] if is_one else index.folders(arguments.folder)
  studies, damages = [], []
  for folder in read:
    try:
      studies.append(analyse(results.read(folder)))
    except UserError as error:
      damages.append(str(error))
  if not studies:
    raise UserError("\n".join(damages))
  index.check_versions(one.study for one in studies)
  if arguments.json:
    values = [files.as_json(study) for study in studies]
    common.print_json(values[0] if is_one else values)
  else:
    if not is_one:
      index.write(arguments.folder, studies)
    for study in studies:
      text = files.write(study)
      page = report.write(study)
    if is_one:
      print(text)
      print(page)
    else:
      print(index.to_markdown(studies))
  if damages:
    raise UserError("\n".join(damages))
