"""What a study comes to, for other programs."""

from collections.abc import Iterator, Mapping
import dataclasses
import math
from typing import Any

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import Difference
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.scores import Table


def as_json(analysis: Analysis) -> dict[str, Any]:
  """Returns scores, statistics and runs as JSON has them.

  A cell is of a column or of a metric of a task, and names the group whose runs
  score it; so do the differences and the runs.
  """
  study, table = analysis.study, analysis.table
  groups = {column.name: column.of_group for column in study.columns}
  return {
    "study": study.name,
    "suite": study.suite,
    "question": study.question,
    "published": study.published,
    "baseline": study.baseline,
    "seeds": list(study.seeds),
    "command": study.command,
    "progress": study.progress(),
    "seconds": study.seconds,
    "rows": [
      {"row": row, **dataclasses.asdict(info)}
      for row, info in study.rows.items()
    ],
    "cells": [*_cells(table, groups)],
    "differences": [
      {"group": groups[one.column], **_difference(one)}
      for one in analysis.comparison.differences.values()
    ],
    "agreements": [
      {"column": one.column, "rows": list(one.rows), "sentence": one.sentence}
      | _numbers(one.ranking)
      for one in analysis.agreements.values()
    ],
    "findings": [
      dataclasses.asdict(one) | {"verdict": one.verdict.value}
      for one in analysis.findings
    ],
    "runs": [*_runs(study)],
  }


def _cells(table: Table, groups: Mapping[str, str]) -> Iterator[dict]:
  named = [
    ({"group": groups[column], "column": column}, column)
    for column in table.columns
  ]
  named += [(metric._asdict(), metric) for metric in table.every_metric]
  for name, column in named:
    for row, cell in table.of_column(column).items():
      numbers = {"mean": cell.mean, "deviation": cell.deviation}
      yield {"row": row, **name, **numbers, **dataclasses.asdict(cell)}


def _difference(one: Difference) -> dict[str, Any]:
  fields = dataclasses.asdict(one) | {"concluded": one.concluded}
  estimate = fields["estimate"]
  if estimate is not None and math.isinf(estimate["degrees"]):
    estimate["degrees"] = None  # JSON has no number for it.
  return fields


def _numbers(ranking) -> dict[str, Any]:
  fields = dataclasses.asdict(ranking)
  del fields["taus_B"]  # Draws, of which `low` and `high` are quantiles.
  return fields


def _runs(study: StudyResults) -> Iterator[dict]:
  for run in study.runs:
    if not run.shared:
      same = ("row", "seed", "group", "part", "phase", "member")
      yield (
        {"run": run.name}
        | {name: getattr(run, name) for name in same}
        | {
          "state": run.state,
          "reason": run.reason,
          "folder": str(run.folder),
          "seconds": (run.result or {}).get("seconds"),
        }
      )
