"""A study's numbers for other programs: CSV, JSON, and all files at once."""

from collections.abc import Iterable, Iterator, Mapping
import csv
import dataclasses
import io
import math
from typing import Any

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.comparison import Comparison
from transformer_zoo.studies.statistics.comparison import Difference
from transformer_zoo.studies.statistics.conclusions import Judged
from transformer_zoo.studies.statistics.ranking import Agreement
from transformer_zoo.studies.statistics.scores import Table

_ESTIMATE = (
  *("difference", "low", "high", "seeds_error", "examples_error"),
  *("degrees", "p_value"),
)
_RANKING = (
  *("tau", "low", "high", "p_value", "smallest_p_value", "num_rows"),
  *("num_pairs", "num_same", "num_clear", "num_clear_same"),
)


def write(analysis: Analysis) -> str:
  """Writes tables and statistics into the study's folder.

  `table.md`, `table.csv`, `table.tex`, `differences.csv` and `agreement.csv`.

  Returns:
    The text of `table.md`.
  """
  study, table = analysis.study, analysis.table
  texts = {
    "table.md": markdown.study_table(analysis),
    "table.csv": to_csv(study, table),
    "table.tex": to_latex(analysis),
    "differences.csv": differences_csv(analysis.comparison),
    "agreement.csv": agreements_csv(analysis.agreements),
  }
  for name, text in texts.items():
    (study.folder / name).write_text(text, encoding="utf-8")
  return texts["table.md"]


def to_latex(analysis: Analysis) -> str:
  """Returns the scores as a float for LaTeX, the published ones under ours."""
  study = analysis.study
  return tables.to_latex(
    scores_section.scores(analysis, marked=False),
    comment=" ".join(study.command.split()),
    caption=" ".join([study.question, *cells.legend(study, "In small")]),
    label=f"tab:{study.name}-{study.suite}",
  )


def to_csv(study: StudyResults, table: Table) -> str:
  """Returns one line per row and column, with all digits and every seed.

  The quartiles of a column of medians are the report's, means over the seeds;
  they are empty in other columns.
  """
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(
    ["row", "label", "group", "column", "seeds", "mean"]
    + ["standard_deviation", "first_quartile", "third_quartile"]
    + ["difference", "bold", "published", "published_difference"]
    + [f"seed_{seed}" for seed in study.seeds]
  )
  named = [
    (column.of_group, column.name, column.name) for column in study.columns
  ]
  named += [(one.group, one.name, one) for one in table.every_metric]
  for group, name, column in named:
    for row, cell in table.of_column(column).items():
      line = [row, table.labels[row], group, name, len(cell.values)]
      line += [cell.mean, cell.deviation, *(cell.quartiles or (None, None))]
      line += [cell.difference, cell.bold]
      line += [cell.published, cell.published_difference]
      writer.writerow(line + [cell.values.get(seed) for seed in study.seeds])
  return text.getvalue()


def differences_csv(comparison: Comparison) -> str:
  """Returns a line for each row and column."""
  head = ["row", "column", "seeds", *_ESTIMATE, "corrected_p_value"]
  head += ["bootstrap_low", "bootstrap_high", "sentence"]
  lines = []
  for one in comparison.differences.values():
    estimate = [getattr(one.estimate, name, None) for name in _ESTIMATE]
    line = [one.row, one.column, len(one.seeds), *estimate]
    line += [one.corrected_p_value, *(one.bootstrap_interval or (None, None))]
    lines.append([*line, one.sentence])
  return _csv(head, lines)


def agreements_csv(agreements: Mapping[str, Agreement]) -> str:
  """Returns a line for each column that has a published one."""
  lines = [
    [
      column,
      *(getattr(one.ranking, name) for name in _RANKING),
      " ".join(one.rows),
      one.sentence,
    ]
    for column, one in agreements.items()
  ]
  return _csv(["column", *_RANKING, "rows", "sentence"], lines)


def as_json(analysis: Analysis) -> dict[str, Any]:
  """Returns scores, statistics and runs as values of JSON.

  A cell belongs to a column or to a metric of a task. Cells, differences and
  runs name the group whose runs score them.
  """
  study, table = analysis.study, analysis.table
  groups = {column.name: column.of_group for column in study.columns}
  return {
    "study": study.name,
    "suite": study.suite,
    "suite_version": study.suite_version,
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
    "powers": [
      dataclasses.asdict(one) | {"is_blind": one.is_blind}
      for one in analysis.powers
    ],
    "conclusions": [_judged(one) for one in analysis.judged],
    "searches": [*_searches(study)],
    "runs": [*_runs(study)],
  }


def _csv(head: list[str], lines: Iterable[list]) -> str:
  text = io.StringIO()
  csv.writer(text, lineterminator="\n").writerows([head, *lines])
  return text.getvalue()


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
  _as_number(fields["estimate"])
  return fields


def _judged(one: Judged) -> dict[str, Any]:
  fields = dataclasses.asdict(one) | {"verdict": one.verdict.value}
  _as_number(fields["estimate"])
  return fields | {"sentence": one.sentence}


def _as_number(estimate: dict[str, Any] | None) -> None:
  """Replaces infinitely many degrees of freedom, which JSON cannot hold."""
  if estimate is not None and math.isinf(estimate["degrees"]):
    estimate["degrees"] = None


def _numbers(ranking) -> dict[str, Any]:
  fields = dataclasses.asdict(ranking)
  del fields["taus_B"]  # Draws, of which `low` and `high` are quantiles.
  return fields


def _searches(study: StudyResults) -> Iterator[dict]:
  for search in study.searches():
    for index, run in enumerate(search.runs):
      same = ("row", "seed", "group", "part", "phase", "alternative")
      yield {name: getattr(run, name) for name in same} | {
        "score": search.scores[index],
        "chosen": index == search.chosen,
      }


def _runs(study: StudyResults) -> Iterator[dict]:
  for run in study.runs:
    if not run.shared:
      same = ("row", "seed", "group", "part", "phase", "member")
      same += ("alternative",)
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
