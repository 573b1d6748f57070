"""The numbers of a study's table: means, deviations, differences, bold.

The rule for bold is the paper's (T5, section 3.1): every entry within two
standard deviations of the best of its column. It is the deviation of the
baseline over its runs. The best of a column of losses is the lowest.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import functools
import math
import statistics
from typing import NamedTuple

from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation.metrics.classification import LOSSES
from transformer_zoo.studies import published
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import MEDIAN
from transformer_zoo.studies.execution.results import StudyResults

# Heads the tasks that are scored by runs of no group and are in no column.
NO_GROUP = "other tasks"


class TaskMetric(NamedTuple):
  """A metric of a task, as the runs of a group score it.

  Runs of several groups may score one task, each with a number of its own.
  """

  group: str
  task: str
  metric: str

  @property
  def is_loss(self) -> bool:
    """Whether the metric is a loss, of which less is better."""
    return self.metric in LOSSES

  @property
  def decimals(self) -> int:
    """The number of digits that are printed."""
    return decimals(self.is_loss)

  @property
  def name(self) -> str:
    """The task and the metric, without the group."""
    return f"{self.task}: {self.metric}"

  def __str__(self) -> str:
    return f"{self.group} / {self.name}"

  def of(self, scores: Mapping[str, Mapping[str, float]]) -> float | None:
    """Returns the value in `{task: {metric: value}}`, None unless finite."""
    value = scores.get(self.task, {}).get(self.metric)
    return value if value is not None and math.isfinite(value) else None


@dataclasses.dataclass(frozen=True)
class Cell:
  """One row's scores in one column.

  Attributes:
    values: The scores by seed. A seed without a score is left out.
    published: The published score, or None.
    difference: The mean minus the baseline's mean, over the seeds that both
      have; None for the baseline.
    published_difference: The published score minus the baseline's, or None.
    bold: Whether the mean is within two deviations of the column's best.
    is_loss: Whether the score is a loss, of which less is better.
    quartiles: Of a median, the first and the third quartile of what it is the
      median of, each as its mean over seeds; else None.
  """

  values: Mapping[int, float]
  published: float | None = None
  difference: float | None = None
  published_difference: float | None = None
  bold: bool = False
  is_loss: bool = False
  quartiles: tuple[float, float] | None = None

  @property
  def decimals(self) -> int:
    """The number of digits that are printed."""
    return decimals(self.is_loss)

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
  """The scores of a study by row and column.

  Attributes:
    rows: The names of the rows, in the order of the study.
    labels: The labels of the rows by their names.
    columns: The names of the suite's columns.
    metrics: The metrics of all tasks by group, as in T5's table 16.
    cells: The cells by (row, column or metric), one for each pair.
    baseline: The name of the row that differences refer to.
  """

  rows: tuple[str, ...]
  labels: Mapping[str, str]
  columns: tuple[str, ...]
  metrics: Mapping[str, tuple[TaskMetric, ...]]
  cells: Mapping[tuple[str, str | TaskMetric], Cell]
  baseline: str

  @property
  def others(self) -> tuple[str, ...]:
    """The rows that are not the baseline."""
    return tuple(row for row in self.rows if row != self.baseline)

  @property
  def every_metric(self) -> tuple[TaskMetric, ...]:
    """The metrics of all groups."""
    return sum(self.metrics.values(), ())

  @property
  def score_columns(self) -> tuple[str, ...]:
    """The columns that are no losses."""
    return tuple(
      c for c in self.columns if not self.cells[self.baseline, c].is_loss
    )

  def seed_means(self, row: str, columns: Sequence[str]) -> dict[int, float]:
    """Returns a row's mean of columns by seed, where it has all of them."""
    values = [self.cells[row, column].values for column in columns]
    return {
      seed: statistics.fmean(of_column[seed] for of_column in values)
      for seed in values[0]
      if all(seed in of_column for of_column in values)
    }

  def of_column(self, column: str | TaskMetric) -> dict[str, Cell]:
    """Returns the cells of a column or a metric by row."""
    return {row: self.cells[row, column] for row in self.rows}


def build(study: StudyResults) -> Table:
  """Computes the table of a study.

  Args:
    study: The results of the study's runs. Unfinished runs are left out.

  Returns:
    The table. A score that no run has is missing from its cell.

  Raises:
    UserError: The study names a published table or row that does not exist.
  """
  metrics = task_metrics(study)
  # What is scored, by the runs of which group, how, and whether it is a loss.
  wanted = [(c.name, c.of_group, c.score, c.is_loss) for c in study.columns]
  wanted += [
    (metric, group, metric.of, metric.is_loss)
    for group, of_group in metrics.items()
    for metric in of_group
  ]
  scores_of = functools.cache(study.scores)
  print_of = _published(study)
  cells = {}
  medians = {c.name: c for c in study.columns if c.average == MEDIAN}
  for what, group, score, is_loss in wanted:
    column = {
      row: Cell(
        values={
          seed: value
          for seed, scores in scores_of(row, group).items()
          if (value := score(scores)) is not None
        },
        published=print_of.get(row, {}).get(getattr(what, "name", what)),
        is_loss=is_loss,
        quartiles=what in medians
        and _mean_quartiles(medians[what], scores_of(row, group).values())
        or None,
      )
      for row in study.rows
    }
    for row, cell in _compared(column, study.baseline).items():
      cells[row, what] = cell
  return Table(
    rows=tuple(study.rows),
    labels={row: info.label for row, info in study.rows.items()},
    columns=tuple(column.name for column in study.columns),
    metrics=metrics,
    cells=cells,
    baseline=study.baseline,
  )


def task_metrics(study: StudyResults) -> dict[str, tuple[TaskMetric, ...]]:
  """Returns the metrics of all tasks by group, tasks of no group last."""
  groups = {}  # Group -> its tasks in order -> their metrics in order.
  for column in study.columns:
    tasks = groups.setdefault(column.of_group, {})
    tasks |= {task: {} for task in column.tasks if task not in tasks}
  scored = [run for run in study.runs if run.scored]
  # A run that is the same for all groups scores the tasks that they have.
  for run in sorted(scored, key=lambda run: not run.group):
    for task, metrics in run.scores.items():
      having = [run.group] if run.group else _groups_with(groups, task)
      for group in having:
        groups.setdefault(group, {}).setdefault(task, {}).update(metrics)
  named = {
    group: tuple(TaskMetric(group, t, m) for t in tasks for m in tasks[t])
    for group, tasks in groups.items()
  }
  return {group: metrics for group, metrics in named.items() if metrics}


def _groups_with(groups, task) -> list[str]:
  return [g for g, tasks in groups.items() if task in tasks] or [NO_GROUP]


def decimals(is_loss: bool) -> int:
  """Returns the number of digits of a score that are printed."""
  return 3 if is_loss else 2  # Losses, in nats, differ by little.


def gaps(study: StudyResults) -> list[str]:
  """Returns sentences about scores that finished runs lack or that diverged.

  Args:
    study: The results of the study's runs.
  """
  return [line for c in study.columns for line in _gaps(study, c)]


def _gaps(study: StudyResults, column: Column) -> Iterator[str]:
  unscored, endless, scored = {}, [], {}
  for row, info in study.rows.items():
    for seed in study.seeds:
      scores = _finished_scores(study, row, seed, column.of_group)
      if scores is None or column.score(scores) is not None:
        continue
      values = [v for metrics in scores.values() for v in metrics.values()]
      if all(map(math.isfinite, values)):
        unscored[info.label] = None
        for task, metrics in scores.items():
          scored.setdefault(task, {}).update(metrics)
      else:
        endless.append(f"{info.label} with seed {seed}")
  if unscored:
    known = [f"{t}: {m}" for t, metrics in scored.items() for m in metrics]
    yield (
      f"{column.name} wants {', '.join(column.scores)}, which runs of these "
      f"rows do not score: {', '.join(unscored)}. They score "
      f"{', '.join(known) or 'nothing'}."
    )
  if endless:
    yield (
      f"{column.name} leaves out runs with scores that are no finite numbers: "
      f"{', '.join(endless)}."
    )


def _finished_scores(
  study, row, seed, group
) -> dict[str, dict[str, float]] | None:
  """The scores of the runs of a row; None until all of them are finished."""
  runs = [run for run in study.scored_runs(row, group) if run.seed == seed]
  if not runs or any(run.result is None for run in runs):
    return None
  return {task: dict(of) for run in runs for task, of in run.scores.items()}


def published_name(column: Column) -> str:
  """Returns the name of the published column for a column."""
  return column.published or column.name


def _mean_quartiles(column, scores_of_seeds) -> tuple[float, float] | None:
  """The means over seeds of the quartiles of a column; None without a seed."""
  found = [
    averages.quartiles(parts)
    for scores in scores_of_seeds
    if None not in (parts := column.parts(scores))
  ]
  return found and tuple(map(statistics.fmean, zip(*found, strict=True)))


def within_two_deviations(
  scores: Mapping[str, float], deviation: float
) -> frozenset[str]:
  """Returns the rows of a column that T5's tables print bold.

  Args:
    scores: The scores of a column by row; more is better.
    deviation: The standard deviation of the baseline over its runs.
  """
  # Scores with two decimals are at the margin now and then.
  least = max(scores.values(), default=0.0) - 2 * deviation - 1e-9
  return frozenset(row for row, score in scores.items() if score >= least)


def _published(study) -> dict[str, Mapping[str, float]]:
  """By row, the published scores by column and `<task>: <metric>`."""
  if not study.published:
    return {}
  table = published.load(study.published)
  per_task = published.per_task(study.published)
  beside = {column.name: published_name(column) for column in study.columns}
  found = {}
  for row, info in study.rows.items():
    if not info.published:
      continue
    scores = table.row(info.published)
    found[row] = {
      c: scores[name] for c, name in beside.items() if name in scores
    }
    if per_task is not None:
      scores = per_task.rows.get(info.published, {})
      names = published.task_metrics()
      found[row] |= {names[c]: s for c, s in scores.items() if c in names}
  return found


def _compared(column, baseline) -> dict[str, Cell]:
  """A column's cells with differences and bold."""
  base = column[baseline]
  sign = -1 if base.is_loss else 1
  means = {r: sign * c.mean for r, c in column.items() if c.mean is not None}
  # With one seed of the baseline there is no deviation: only the best is bold.
  bold = within_two_deviations(means, base.deviation or 0.0)
  return {
    row: dataclasses.replace(
      cell,
      difference=None if row == baseline else _difference(cell, base),
      published_difference=(
        None if row == baseline else _minus(cell.published, base.published)
      ),
      bold=row in bold,
    )
    for row, cell in column.items()
  }


def _difference(cell: Cell, base: Cell) -> float | None:
  seeds = cell.values.keys() & base.values.keys()
  if not seeds:
    return None
  return statistics.fmean(cell.values[s] - base.values[s] for s in seeds)


def _minus(one: float | None, other: float | None) -> float | None:
  return None if one is None or other is None else one - other
