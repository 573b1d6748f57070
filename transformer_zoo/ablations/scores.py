"""The numbers of a study's table: means, deviations, differences, bold.

The rule for bold is the paper's (T5, section 3.1): every entry within two
standard deviations of the best of its column, the deviation being that of
the baseline over its runs.
"""

import dataclasses
import statistics

from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.evaluation import averages

AVERAGE = "average"
_GROUPS = {
  "GLUE average": averages.glue_average,
  "SuperGLUE average": averages.super_glue_average,
}


@dataclasses.dataclass(frozen=True)
class Cell:
  """One row's scores in one column.

  Attributes:
    values: `{seed: score}`; a seed without a score is left out.
    published: the score of the publication, or None.
    difference: mean minus the baseline's mean; None for the baseline.
    bold: whether the mean is within two deviations of the column's best.
  """

  values: dict[int, float]
  published: float | None = None
  difference: float | None = None
  bold: bool = False

  @property
  def mean(self) -> float | None:
    """The mean over seeds, None without values."""
    return statistics.fmean(self.values.values()) if self.values else None

  @property
  def deviation(self) -> float | None:
    """The sample standard deviation over seeds, None under two values."""
    if len(self.values) < 2:
      return None
    return statistics.stdev(self.values.values())


@dataclasses.dataclass(frozen=True)
class Table:
  """Cells by row and column.

  Attributes:
    rows: names, the order of the study.
    columns: names: averages first, then a score per task.
    metrics: names of the columns `<task>: <metric>`, for each task that has
      several metrics.
    cells: by (row, column); every row has every column and metric.
    baseline: the row that the differences refer to.
  """

  rows: tuple[str, ...]
  columns: tuple[str, ...]
  metrics: tuple[str, ...]
  cells: dict[tuple[str, str], Cell]
  baseline: str


def build(study: StudyResults) -> Table:
  """Computes the table of a study.

  Args:
    study: what the study's runs came to; unfinished runs are left out.

  Returns:
    The table. A task's score is the mean of its metrics, the average the mean
    of the tasks' scores; benchmark averages appear when all their tasks do.
  """
  values = {}  # (row, column) -> {seed: value}
  columns, tasks, metrics = {}, {}, {}  # Ordered sets.
  for row in study.rows:
    for seed, scores in study.scores(row).items():
      for column, value in _averages(scores).items():
        columns[column] = None
        values.setdefault((row, column), {})[seed] = value
      for task, by_metric in scores.items():
        if not by_metric:
          continue
        column = _task_column(task, by_metric)
        tasks[column] = None
        values.setdefault((row, column), {})[seed] = averages.task_score(
          by_metric
        )
        for metric, value in by_metric.items():
          if len(by_metric) > 1:
            name = f"{task}: {metric}"
            metrics[name] = None
            values.setdefault((row, name), {})[seed] = value
  columns = (*columns, *sorted(tasks))
  cells = {}
  for column in (*columns, *sorted(metrics)):
    cells.update(_column(study, column, values))
  return Table(
    rows=study.rows,
    columns=columns,
    metrics=tuple(sorted(metrics)),
    cells=cells,
    baseline=study.baseline,
  )


def _averages(scores) -> dict[str, float]:
  found = {AVERAGE: averages.average(scores)}
  found |= {name: mean(scores) for name, mean in _GROUPS.items()}
  return {name: value for name, value in found.items() if value is not None}


def _task_column(task, by_metric) -> str:
  if len(by_metric) == 1:
    return f"{task} ({next(iter(by_metric))})"
  return task


def _column(study, column, values) -> dict[tuple[str, str], Cell]:
  cells = {
    row: Cell(
      values=values.get((row, column), {}),
      published=study.published[row].get(column.partition(" (")[0]),
    )
    for row in study.rows
  }
  base = cells[study.baseline]
  means = [cell.mean for cell in cells.values() if cell.mean is not None]
  # With one seed of the baseline there is no deviation: only the best is bold.
  margin = 2 * (base.deviation or 0.0)
  done = {}
  for row, cell in cells.items():
    if cell.mean is not None:
      compared = row != study.baseline and base.mean is not None
      cell = dataclasses.replace(
        cell,
        difference=cell.mean - base.mean if compared else None,
        bold=cell.mean >= max(means) - margin,
      )
    done[row, column] = cell
  return done
