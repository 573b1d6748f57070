"""`study.json`: what a study is, and which runs it has."""

from collections.abc import Mapping, Sequence
import dataclasses
import os
import pathlib

from transformer_zoo.studies.design import commands
from transformer_zoo.studies.design import expressions
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Suite
from transformer_zoo.studies.execution import json_files

STUDY_FILE = "study.json"


def describe(
  study: Study,
  suite: Suite,
  runs: Sequence[plan.Run],
  folder: pathlib.Path,
  command: str,
  options: Sequence[str],
) -> dict:
  """Returns what `study.json` says: what the study is.

  Args:
    study: the study.
    suite: what it runs on.
    runs: all of them.
    folder: the study's; runs are named relative to it.
    command: what runs the study.
    options: words that the command of every run needs too.
  """

  def of_run(run):
    same = ("row", "seed", "group", "part", "phase", "member")
    same += ("scored", "shared")
    return {name: getattr(run, name) for name in same} | {
      "folder": relative(run.folder, folder),
      "starts": [relative(start, folder) for start in run.starts],
      "command": commands.of_run(run, options),
      "fingerprint": run.fingerprint,
    }

  return {
    "name": study.name,
    "question": study.question,
    "suite": suite.name,
    "baseline": study.baseline_name,
    "seeds": list(study.seeds),
    "command": command,
    "published": study.published,
    "columns": [*map(dataclasses.asdict, suite.columns_of(study))],
    "rows": [
      {
        "name": row.name,
        "label": expressions.expand(row.shown, suite.values),
        "published": row.published,
      }
      for row in study.rows
    ],
    "runs": [of_run(run) for run in runs],
  }


def relative(path: pathlib.Path, folder: pathlib.Path) -> str:
  """Returns a path as `study.json` names it."""
  return pathlib.PurePath(os.path.relpath(path, folder)).as_posix()


def write(folder: pathlib.Path, description: Mapping) -> None:
  """Writes `study.json`, atomically."""
  json_files.replace(folder / STUDY_FILE, description)
