"""A study's table as Markdown and CSV; `write` writes it in every form."""

from collections.abc import Callable, Iterable, Sequence
import csv
import io

from transformer_zoo.ablations import budgets
from transformer_zoo.ablations import cells
from transformer_zoo.ablations import latex
from transformer_zoo.ablations import statistics
from transformer_zoo.ablations.analysis import Analysis
from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.ablations.scores import Cell
from transformer_zoo.ablations.scores import Table
from transformer_zoo.ablations.scores import TaskMetric


def to_markdown(analysis: Analysis) -> str:
  """Returns the table, what it shows and what is missing, as Markdown."""
  study, table = analysis.study, analysis.table
  seeds = len(study.seeds)

  def score(cell: Cell) -> str:
    text = cells.score(cell, seeds)
    text = f"**{text}**" if cell.bold else text
    if cell.published is None:
      return text
    return f"{text} [{cells.number(cell.published)}]"

  def difference(cell: Cell) -> str:
    text = cells.difference(cell)
    if cell.published_difference is None:
      return text
    return f"{text} [{cells.signed(cell.published_difference)}]"

  parts = [f"# {study.name}, suite {study.suite}", study.question]
  parts.append(_grid(study, table, table.rows, table.columns, score))
  parts += _listed(cells.legend(study, "In brackets"))
  if table.others:
    parts.append(f"## Differences from {table.labels[table.baseline]}")
    parts.append(_grid(study, table, table.others, table.columns, difference))
    parts += _listed([analysis.summary, *analysis.concluded])
    parts += _listed(analysis.comparison.notes)
  if analysis.agreements:
    parts.append("## Beside the publication")
    parts += _listed(one.sentence for one in analysis.agreements.values())
  if analysis.budgets:
    parts.append("## Budgets")
    parts += _listed(budgets.sentences(study, analysis.budgets))
  metrics = table.every_metric
  if metrics:
    parts.append("## Scores of each task")
    parts.append(_grid(study, table, table.rows, metrics, score, turned=True))
  if analysis.open:
    parts += ["## What cannot be concluded", *_listed(analysis.open)]
  if study.unfinished():
    parts += ["## Not finished", study.progress()]
    parts += _listed(run.sentence for run in study.unfinished())
  parts += ["## Command", f"    {study.command}"]
  return "\n\n".join(filter(None, parts)) + "\n"


def to_csv(study: StudyResults, table: Table) -> str:
  """Returns one line per row and column, with all digits and every seed."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(
    ["row", "label", "group", "column", "seeds", "mean"]
    + ["standard_deviation", "difference", "bold"]
    + ["published", "published_difference"]
    + [f"seed_{seed}" for seed in study.seeds]
  )
  named = [
    (column.of_group, column.name, column.name) for column in study.columns
  ]
  named += [(one.group, one.name, one) for one in table.every_metric]
  for group, name, column in named:
    for row, cell in table.of_column(column).items():
      line = [row, table.labels[row], group, name, len(cell.values)]
      line += [cell.mean, cell.deviation, cell.difference, cell.bold]
      line += [cell.published, cell.published_difference]
      writer.writerow(line + [cell.values.get(seed) for seed in study.seeds])
  return text.getvalue()


def write(analysis: Analysis) -> str:
  """Writes tables and statistics into the study's folder.

  `table.md`, `table.csv`, `table.tex`, `differences.csv` and `agreement.csv`.

  Returns:
    The text of `table.md`.
  """
  study, table = analysis.study, analysis.table
  texts = {
    "table.md": to_markdown(analysis),
    "table.csv": to_csv(study, table),
    "table.tex": latex.to_latex(study, table),
    "differences.csv": statistics.differences_csv(analysis.comparison),
    "agreement.csv": statistics.agreements_csv(analysis.agreements),
  }
  for name, text in texts.items():
    (study.folder / name).write_text(text, encoding="utf-8")
  return texts["table.md"]


def _listed(lines: Iterable[str]) -> list[str]:
  """One block of a Markdown list; none without lines."""
  return ["\n".join(f"- {line}" for line in lines if line)]


def _grid(
  study: StudyResults,
  table: Table,
  rows: Sequence[str],
  columns: Sequence[str | TaskMetric],
  text: Callable[[Cell], str],
  turned: bool = False,
) -> str:
  """A Markdown table; turned, its columns run downwards."""
  lines = [["", *map(str, columns)]]
  lines += [
    [cells.label(study, row), *(text(table.cells[row, c]) for c in columns)]
    for row in rows
  ]
  if turned:
    lines = [list(line) for line in zip(*lines, strict=True)]
  lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  lines.insert(1, ["-" * width for width in widths])
  return "\n".join(
    "| "
    + " | ".join(
      text.ljust(width) for text, width in zip(line, widths, strict=True)
    )
    + " |"
    for line in lines
  )
