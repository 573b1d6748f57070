"""Labels of a study's table, and the sentences that explain its cells."""

from collections.abc import Collection

from transformer_zoo.studies import published
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import MEDIAN
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import power
from transformer_zoo.studies.statistics.scores import TaskMetric

# T5 marks the row that the others are compared with by a star.
STAR = "★"


def label(study: StudyResults, row: str) -> str:
  """Returns the label of a row, with a star for the baseline."""
  text = study.rows[row].label
  return f"{STAR}\u00a0{text}" if row == study.baseline else text


def source(study: StudyResults) -> str:
  """Returns the name of the published table, or ""."""
  if not study.published:
    return ""
  table = published.load(study.published)
  return f"{table.source}: {table.title}"


def head(column: str | TaskMetric, blind: Collection[str]) -> str:
  """Returns the title of a column, marked if its power is too low.

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
        f"Columns of other tasks than the published ones, {others}: only "
        "differences stand beside the published ones."
      )
    notes = published.load(study.published).notes
    lines += [f"The publication: {note}" for note in notes]
  return tuple(lines)


def of_other_tasks(column: Column) -> bool:
  """Returns whether the published column of a column is of other tasks."""
  return column.published not in ("", column.name)


def other_columns(study: StudyResults) -> str:
  """Returns the columns whose published column is of other tasks."""
  return ", ".join(
    f"{column.name} beside {column.published}"
    for column in study.columns
    if of_other_tasks(column)
  )
