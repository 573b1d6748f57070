"""Power of a study: the smallest detectable difference in each column."""

from collections.abc import Sequence
import dataclasses
import math

import numpy as np

from transformer_zoo.studies.design.suite import MEAN
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import inference
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import wording
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.studies.statistics.study_resamples import StudyResamples

# A column whose smallest detectable difference has more points is marked.
POINTS = 3.0
MARK = "†"
LEGEND = (
  f"{MARK} the smallest detectable difference is above {POINTS:.0f} points, or "
  "unknown."
)


@dataclasses.dataclass(frozen=True)
class Power:
  """The power of a column, or of the mean of columns.

  Attributes:
    column: The name of the column, or `MEAN`.
    deviation: The standard deviation over seeds, pooled over rows; None unless
      a row has two seeds.
    smallest: The smallest true difference that is significant, two-sided at
      5 %, in 80 % of studies; None like `deviation`. Where few seeds differ by
      less than rounding alone does, by chance, rounding counts.
    is_loss: Whether the column is a loss, which has no points.
    rounding: The standard deviation that the rounding of a machine gives to
      runs of one seed; None if the suite does not state it.
  """

  column: str
  deviation: float | None
  smallest: float | None
  is_loss: bool = False
  rounding: float | None = None

  @property
  def text(self) -> str:
    """The smallest difference as text."""
    if self.smallest is None:
      return "unknown"
    return wording.number(self.smallest, scores.decimals(self.is_loss))

  @property
  def is_blind(self) -> bool:
    """Whether a difference of `POINTS` cannot be detected in the column."""
    if self.is_loss:
      return False
    return self.smallest is None or self.smallest > POINTS


def of_columns(
  study: StudyResults, table: Table, resamples: StudyResamples
) -> tuple[Power, ...]:
  """Returns the power of each column that has scores, then of their mean.

  Args:
    study: The results of the study's runs.
    table: The scores of the study.
    resamples: The result of `resample(study)`.
  """
  found = [
    _of_columns(study, table, resamples, column, (column,))
    for column in table.columns
    if any(cell.values for cell in table.of_column(column).values())
  ]
  if len(table.score_columns) > 1:
    mean = _of_columns(study, table, resamples, MEAN, table.score_columns)
    found.append(mean)
  return tuple(found)


def sentence(powers: Sequence[Power], num_seeds: int) -> str:
  """Returns the smallest detectable differences in words, "" without scores."""
  if not powers:
    return ""
  if all(one.smallest is None for one in powers):
    return (
      "The smallest detectable difference is unknown: it follows from the "
      "deviation over seeds, and no row has two seeds."
    )
  seen = ", ".join(f"{one.column} {one.text}" for one in powers)
  rounded = ", ".join(
    f"{one.column} {one.rounding:.1f}"
    for one in powers
    if one.rounding is not None
  )
  text = (
    f"The smallest detectable difference with {num_seeds} seeds "
    f"({100 * inference.POWER:.0f} % power, two-sided 5 %): {seen}."
  )
  blind = ", ".join(one.column for one in powers if one.is_blind)
  if blind:
    text += f" It is above {POINTS:.0f} points in: {blind}."
  if rounded:
    text += (
      " The rounding of a machine alone moves a score of one seed by (standard "
      f"deviation): {rounded}."
    )
  return text


def _of_columns(study, table, resamples, name, columns) -> Power:
  values = {row: table.seed_means(row, columns) for row in table.rows}
  many = [[*by_seed.values()] for by_seed in values.values()]
  many = [of_row for of_row in many if len(of_row) > 1]
  is_loss = table.cells[table.baseline, columns[0]].is_loss
  num_seeds = len(study.seeds)
  rounding = study.rounding.get(name)
  if not many or num_seeds < 2:
    return Power(name, None, None, is_loss, rounding)
  degrees = [len(of_row) - 1 for of_row in many]
  variances = [np.var(of_row, ddof=1) for of_row in many]
  deviation = math.sqrt(np.average(variances, weights=degrees))
  of_examples = _examples_variance(table, resamples, columns, values)
  smallest = inference.smallest_difference(
    max(deviation, rounding or 0.0), num_seeds, of_examples
  )
  return Power(name, deviation, smallest, is_loss, rounding)


def _examples_variance(table, resamples, columns, values) -> float:
  """The mean over rows of the variance of differences due to the examples."""
  found = []
  for row in table.others:
    seeds = [s for s in values[row] if s in values[table.baseline]]
    row_BS, baseline_BS = (
      resamples.seed_means(columns, one, seeds) for one in (row, table.baseline)
    )
    if row_BS is not None and baseline_BS is not None:
      found.append(inference.examples_variance(row_BS - baseline_BS))
  return float(np.mean(found)) if found else 0.0
