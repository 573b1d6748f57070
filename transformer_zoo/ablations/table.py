"""A study's table in words, Markdown and CSV."""

import csv
import io
import math

from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.ablations.scores import AVERAGE
from transformer_zoo.ablations.scores import build
from transformer_zoo.ablations.scores import Cell
from transformer_zoo.ablations.scores import Table


def verdict(table: Table, row: str, column: str = AVERAGE) -> str:
  """Says in words whether a row differs from the baseline.

  The difference counts when it is more than twice the larger of the two rows'
  sample standard deviations over seeds. The pooled deviation,
  sqrt((s1² + s2²) / 2), is shown beside it.

  Args:
    table: the table.
    row: a row other than the baseline.
    column: the scores to compare.

  Returns:
    One sentence or two, plain text.
  """
  one = table.cells.get((table.baseline, column), Cell({}))
  other = table.cells.get((row, column), Cell({}))
  head = f"{table.baseline} − {row}"
  if one.mean is None or other.mean is None:
    return f"{head}: a row has no finished run, so nothing can be said."
  difference = one.mean - other.mean
  head = f"{head} = {signed(difference)} ({column})"
  if one.deviation is None or other.deviation is None:
    return (
      f"{head}. A row has a single seed, which has no standard deviation, so "
      "nothing can be concluded."
    )
  larger = max(one.deviation, other.deviation)
  pooled = math.sqrt((one.deviation**2 + other.deviation**2) / 2)
  exceeds = abs(difference) > 2 * larger
  words = "exceeds" if exceeds else "does not exceed"
  pooled_words = "exceeded" if abs(difference) > 2 * pooled else "not exceeded"
  return (
    f"{head}, which {words} two standard deviations: 2 × {number(larger)} = "
    f"{number(2 * larger)}, by the larger of the two rows' sample standard "
    f"deviations over {len(one.values)} and {len(other.values)} seeds. By the "
    f"pooled one, 2 × {number(pooled)} = {number(2 * pooled)}: {pooled_words}."
  )


def to_markdown(study: StudyResults, table: Table) -> str:
  """Returns the table, what it shows and what is missing, as Markdown."""
  parts = [f"# {study.name}", study.question]
  parts.append(_grid(table, table.columns, len(study.seeds)))
  parts += [f"- {verdict(table, row)}" for row in others(table)]
  parts += [f"- {line}" for line in legend(study)]
  if table.metrics:
    parts += ["## Metrics of tasks that have several"]
    parts.append(_grid(table, table.metrics, len(study.seeds)))
  if study.unfinished():
    parts += ["## Not finished", study.progress()]
    parts += ["\n".join(f"- {run.sentence}" for run in study.unfinished())]
  parts += ["## Command", f"    {study.command}"]
  text = "\n\n".join(filter(None, parts))
  return text.replace(".\n\n- ", ".\n- ") + "\n"


def to_csv(table: Table) -> str:
  """Returns one line per row and column, with all digits and every seed."""
  seeds = sorted(
    {seed for cell in table.cells.values() for seed in cell.values}
  )
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(
    ["row", "column", "seeds", "mean", "standard_deviation", "difference"]
    + ["bold", "published", *(f"seed_{seed}" for seed in seeds)]
  )
  for column in (*table.columns, *table.metrics):
    for row in table.rows:
      cell = table.cells[row, column]
      line = [row, column, len(cell.values), cell.mean, cell.deviation]
      line += [cell.difference, cell.bold, cell.published]
      writer.writerow(line + [cell.values.get(seed) for seed in seeds])
  return text.getvalue()


def write(study: StudyResults) -> str:
  """Writes `table.md` and `table.csv` into the study's folder.

  Returns:
    The text of `table.md`.
  """
  table = build(study)
  text = to_markdown(study, table)
  (study.folder / "table.md").write_text(text, encoding="utf-8")
  (study.folder / "table.csv").write_text(to_csv(table), encoding="utf-8")
  return text


def others(table: Table) -> tuple[str, ...]:
  """Returns the rows that are not the baseline."""
  return tuple(row for row in table.rows if row != table.baseline)


def legend(study: StudyResults) -> tuple[str, ...]:
  """Returns the sentences that explain the cells."""
  lines = [
    f"Mean ± sample standard deviation over {len(study.seeds)} seeds; in "
    f"parentheses the difference from {study.baseline}. Bold: within two "
    f"standard deviations (of {study.baseline} over its seeds) of the best.",
    "A task's score is the mean of its metrics; the average is the mean of "
    "the tasks' scores.",
  ]
  if any(study.published.values()):
    lines.append("In brackets the published score.")
  return tuple(lines)


def cell_text(cell: Cell, seeds: int) -> str:
  """Returns a cell as plain text.

  Args:
    cell: the cell.
    seeds: the study's number of seeds; a cell with fewer says how many.
  """
  if cell.mean is None:
    return "—" if cell.published is None else f"— [{number(cell.published)}]"
  text = number(cell.mean)
  if cell.deviation is not None:
    text += f" ± {number(cell.deviation)}"
  if cell.difference is not None:
    text += f" ({signed(cell.difference)})"
  if len(cell.values) < seeds:
    text += f" {len(cell.values)} of {seeds} seeds"
  if cell.published is not None:
    text += f" [{number(cell.published)}]"
  return text


def number(value: float) -> str:
  """Returns a score with two decimals and a typographic minus."""
  return f"{value:.2f}".replace("-", "−")


def signed(value: float) -> str:
  """Returns a difference with its sign and two decimals."""
  return f"{value:+.2f}".replace("-", "−")


def _grid(table: Table, columns: tuple[str, ...], seeds: int) -> str:
  """A Markdown table, turned so that the longer side runs downwards."""

  def text(row, column):
    cell = table.cells[row, column]
    plain = cell_text(cell, seeds)
    return f"**{plain}**" if cell.bold else plain

  lines = [["", *columns]]
  lines += [[row, *(text(row, c) for c in columns)] for row in table.rows]
  if len(columns) >= len(table.rows):
    lines = [list(line) for line in zip(*lines, strict=True)]
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
