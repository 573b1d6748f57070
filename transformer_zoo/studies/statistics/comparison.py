"""Comparison of a study's rows with its baseline."""

from collections.abc import Mapping
import dataclasses

import numpy as np

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import inference
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import study_resamples
from transformer_zoo.studies.statistics import wording
from transformer_zoo.studies.statistics.study_resamples import StudyResamples


@dataclasses.dataclass(frozen=True)
class Difference:
  """A row's score in a column minus the baseline's.

  Attributes:
    row: The name of the row.
    column: The name of the column.
    seeds: The seeds that both rows have scores of.
    estimate: The difference, its interval (95 %, for this comparison alone) and
      p-value; None if no seed has both scores.
    bootstrap_interval: The interval of the plain paired bootstrap over seeds
      and examples, too narrow with few seeds; None without predictions.
    corrected_p_value: Holm's corrected p-value, over all rows and columns of
      the table; None if there is no p-value.
    sentence: The conclusion in words.
    is_loss: Whether the column is a loss, of which less is better.
    is_same: Whether the same runs score both rows, so that nothing is
      estimated.
  """

  row: str
  column: str
  seeds: tuple[int, ...]
  estimate: inference.Estimate | None
  bootstrap_interval: tuple[float, float] | None = None
  corrected_p_value: float | None = None
  sentence: str = ""
  is_loss: bool = False
  is_same: bool = False

  @property
  def concluded(self) -> bool:
    """Whether the difference holds after correction for all comparisons."""
    corrected = self.corrected_p_value
    return corrected is not None and corrected <= 1 - inference.LEVEL


@dataclasses.dataclass(frozen=True)
class Comparison:
  """The differences of all rows of a study from its baseline.

  Attributes:
    differences: The differences by (row, column).
    num_comparisons: The number of comparisons that p-values are corrected for.
    notes: Sentences about the power of the comparison, about what is estimated,
      and about columns whose examples could not be resampled.
  """

  differences: Mapping[tuple[str, str], Difference]
  num_comparisons: int
  notes: tuple[str, ...]


def compare(
  study: StudyResults, resamples: StudyResamples | None = None
) -> Comparison:
  """Compares every row with the baseline in every column.

  Args:
    study: The results of the study's runs.
    resamples: The result of `resample(study)`; None to compute it here.
  """
  resamples = resamples or study_resamples.resample(study)
  table = scores.build(study)
  found = [
    Difference(row, column, (), None, is_same=True)
    if _same_runs(study, row, column)
    else _difference(table, resamples, row, column)
    for row in table.others
    for column in table.columns
  ]
  tested = [
    i
    for i, one in enumerate(found)
    if one.estimate is not None and one.estimate.p_value is not None
  ]
  corrected = inference.holm([found[i].estimate.p_value for i in tested])
  for i, p_value in zip(tested, corrected, strict=True):
    found[i] = dataclasses.replace(found[i], corrected_p_value=p_value)
  labels = table.labels
  differences = {
    (one.row, one.column): dataclasses.replace(
      one,
      sentence=wording.verdict(
        one, labels[one.row], labels[table.baseline], len(tested)
      ),
    )
    for one in found
  }
  notes = wording.notes(len(study.seeds), len(tested), resamples.reasons)
  return Comparison(differences, len(tested), notes)


def _same_runs(study, row, column) -> bool:
  """Whether the same runs score a row and the baseline."""
  group = next(c.of_group for c in study.columns if c.name == column)
  mine, base = (
    {(run.seed, run.folder) for run in study.scored_runs(one, group)}
    for one in (row, study.baseline)
  )
  return mine == base


def _difference(table, resamples, row, column) -> Difference:
  cell = table.cells[row, column]
  mine, base = cell.values, table.cells[table.baseline, column].values
  seeds = tuple(seed for seed in base if seed in mine)
  if not seeds:
    return Difference(row, column, seeds, None, is_loss=cell.is_loss)
  row_BS, baseline_BS = (
    resamples.of_seeds(column, r, seeds) for r in (row, table.baseline)
  )
  variance = interval = None
  if row_BS is not None and baseline_BS is not None:
    variance = inference.examples_variance(row_BS - baseline_BS)
    interval = inference.percentile_interval(row_BS - baseline_BS)
  estimate = inference.estimate(
    np.array([mine[seed] for seed in seeds]),
    np.array([base[seed] for seed in seeds]),
    variance,
  )
  return Difference(
    row, column, seeds, estimate, interval, is_loss=cell.is_loss
  )
