"""Cells of a study's table as text, and the sentences that explain them."""

from collections.abc import Collection

from transformer_zoo.studies import published
from transformer_zoo.studies.design.suite import MEDIAN
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import power
from transformer_zoo.studies.statistics.scores import Cell
from transformer_zoo.studies.statistics.scores import TaskMetric
from transformer_zoo.studies.statistics.wording import number
from transformer_zoo.studies.statistics.wording import signed

# T5 marks the row that the others are compared with by a star.
STAR = "★"


def score(cell: Cell, seeds: int) -> str:
  """Returns our score: `83.28 ± 0.24`, `—` where there is none.

  Args:
    cell: The cell.
    seeds: The number of seeds of the study. A cell with fewer names how many.
  """
  if cell.mean is None:
    return "—"
  text = number(cell.mean, cell.decimals)
  if cell.deviation is not None:
    text += f" ± {number(cell.deviation, cell.decimals)}"
  return text + _fewer(cell, seeds)


def quartiles(cell: Cell) -> str:
  """Returns the quartiles of a median, "" of another cell."""
  if cell.quartiles is None:
    return ""
  low, high = (number(value, cell.decimals) for value in cell.quartiles)
  return f"quartiles {low} to {high}"


def difference(cell: Cell, seeds: int) -> str:
  """Returns our difference from the baseline, `—` where there is none.

  Args:
    cell: The cell.
    seeds: The number of seeds of the study. A cell with fewer names how many.
  """
  if cell.difference is None:
    return "—"
  return signed(cell.difference, cell.decimals) + _fewer(cell, seeds)


def _fewer(cell, seeds) -> str:
  known = len(cell.values)
  return f" ({known} of {seeds} seeds)" if known < seeds else ""


def label(study: StudyResults, row: str) -> str:
  """Returns the label of a row, that of the baseline with a star."""
  text = study.rows[row].label
  return f"{STAR}\u00a0{text}" if row == study.baseline else text


def source(study: StudyResults) -> str:
  """Returns the name of the published table, or ""."""
  if not study.published:
    return ""
  table = published.load(study.published)
  return f"{table.source}: {table.title}"


def head(column: str | TaskMetric, blind: Collection[str]) -> str:
  """Returns the title of a column, marked if it cannot see three points.

  Args:
    column: The name of a column, or a metric of a task.
    blind: The names of the columns that are marked.
  """
  return f"{column}\u00a0{power.MARK}" if column in blind else str(column)


def legend(
  study: StudyResults, where: str, blind: Collection[str] = ()
) -> tuple[str, ...]:
  """Returns the sentences that explain the cells.

  Args:
    study: The results of the study's runs.
    where: The place of the published score, such as "In brackets".
    blind: The columns whose heads are marked.
  """
  base = study.rows[study.baseline].label
  lines = [
    f"Mean ± sample standard deviation over {len(study.seeds)} seeds. Bold: "
    f"within two standard deviations (of {base} over its seeds) of the best of "
    "the column, as in Raffel et al. 2020."
    if len(study.seeds) > 1
    else "One seed. Bold: the best of the column."
  ]
  lines.append(f"{STAR} marks the row that the others are compared with.")
  if blind:
    lines.append(power.LEGEND)
  medians = [c.name for c in study.columns if c.average == MEDIAN]
  if medians:
    lines.append(
      f"Medians over the templates of a set, with quartiles: "
      f"{', '.join(medians)}."
    )
  losses = [column.name for column in study.columns if column.is_loss]
  if losses:
    lines.append(f"Losses, of which less is better: {', '.join(losses)}.")
  if study.published:
    lines.append(f"{where}: the published score, {source(study)}.")
    others = other_columns(study)
    if others:
      lines.append(
        f"Columns of other tasks than the published ones, {others}: directions "
        "compare, levels do not."
      )
    notes = published.load(study.published).notes
    lines += [f"The publication: {note}" for note in notes]
  return tuple(lines)


def other_columns(study: StudyResults) -> str:
  """Returns the columns whose published column is of other tasks."""
  return ", ".join(
    f"{column.name} beside {column.published}"
    for column in study.columns
    if column.published not in ("", column.name)
  )
