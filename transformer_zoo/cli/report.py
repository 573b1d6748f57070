"""Reads the folder of a study and writes its tables and its page again.

The table of the finished runs is printed, also while others run; the tables,
the statistics and `report.html` are written. For the folder above several
studies this is done for each of them, and `index.html` and `index.md` are
written (docs/guides/reports.md). A study that cannot be read is named after the
others. `--publish` writes a page of each for a site, beside those of studies
that were published before, and an index of all.
"""

import argparse
import pathlib

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "read a study's folder while its runs run, and write its report"
EXAMPLE = "zoo report runs/quickstart-miniature"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the folders, `--publish` and `--json`."""
  parser.add_argument(
    "folders",
    metavar="DIR",
    nargs="*",
    help="the folder of a study, as `zoo ablate` printed it, or of several",
  )
  instead = parser.add_mutually_exclusive_group()
  instead.add_argument(
    "--publish",
    metavar="FOLDER",
    help="write a page of each study for a site into this folder; without a "
    "study, its pages and index anew",
  )
  common.add_json_argument(instead)


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
  from transformer_zoo.studies.report import site
  from transformer_zoo.studies.statistics.analysis import analyse

  if not arguments.folders:
    if not arguments.publish:
      raise UserError("zoo report needs the folder of a study, or --publish")
    print(site.publish(arguments.publish, []))
    return
  above = [one for one in arguments.folders if not results.is_study(one)]
  is_one = not above and len(arguments.folders) == 1
  studies, damages = [], []
  for given in arguments.folders:
    for folder in index.folders(given) if given in above else [given]:
      try:
        studies.append(analyse(results.read(folder)))
      except UserError as error:
        damages.append(str(error))
  if damages and not studies:
    raise UserError("\n".join(damages))
  index.check_versions(one.study for one in studies)
  if arguments.json:
    values = [files.as_json(study) for study in studies]
    common.print_json(values[0] if is_one else values)
  else:
    for folder in map(pathlib.Path, above):
      lie_in = [one for one in studies if one.study.folder.parent == folder]
      index.write(folder, lie_in)
    for study in studies:
      text = files.write(study)
      page = report.write(study)
    if is_one:
      print(text)
      print(page)
    else:
      print(index.to_markdown(studies))
    if arguments.publish:
      print(site.publish(arguments.publish, studies))
  if damages:
    raise UserError("\n".join(damages))
