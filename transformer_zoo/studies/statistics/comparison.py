"""Comparison of a study's rows with its baseline."""

from collections.abc import Mapping, Sequence
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
      sentence=_verdict(
        one, labels[one.row], labels[table.baseline], len(tested)
      ),
    )
    for one in found
  }
  notes = _notes(len(study.seeds), len(tested), resamples.reasons)
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


def _verdict(
  found: Difference, row: str, baseline: str, num_comparisons: int
) -> str:
  """Returns the conclusion about a row in a column.

  Args:
    found: The difference with its corrected p-value.
    row: The label of the row.
    baseline: The label of the baseline.
    num_comparisons: The number of comparisons made together.
  """
  estimate = found.estimate
  if found.is_same:
    return (
      f"{row} and {baseline} ({found.column}) are the very same runs: what "
      "differs between the rows changes nothing here."
    )
  if estimate is None:
    return (
      f"{row} − {baseline} ({found.column}): no seed has both scores, so "
      "nothing can be said."
    )
  decimals = 3 if found.is_loss else 2
  difference, low, high = (
    value if value is None else wording.signed(value, decimals)
    for value in (estimate.difference, estimate.low, estimate.high)
  )
  head = f"{row} − {baseline} = {difference} ({found.column})"
  if low is not None:
    head += f", {inference.PERCENT} interval {low} to {high}"
  if len(found.seeds) == 1:
    return f"{head}. {_of_one_seed(estimate)}"
  if estimate.p_value is None:
    return (
      f"{head}. No seed differs from another, so there is nothing to measure "
      "the difference against."
    )
  head += f", {wording.p_value(estimate.p_value)}"
  if num_comparisons > 1:
    head += (
      f", corrected for {num_comparisons} comparisons "
      f"{wording.p_value(found.corrected_p_value)}"
    )
  return f"{head}. {_conclusion(found, row, num_comparisons, decimals)}"


def _notes(
  num_seeds: int, num_comparisons: int, reasons: Sequence[str]
) -> tuple[str, ...]:
  """Returns sentences about the power of a study and the limits of its numbers.

  Args:
    num_seeds: The number of seeds of every row.
    num_comparisons: The number of comparisons made together.
    reasons: Sentences about tasks whose examples could not be resampled.
  """
  lines = []
  if num_seeds == 1:
    lines.append(
      "With one seed, the variation between seeds is unknown: intervals are "
      "of these very models over other examples, and nothing is tested."
    )
  elif num_comparisons:
    alone = inference.deviations_needed(num_seeds)
    together = inference.deviations_needed(num_seeds, num_comparisons)
    line = (
      f"What {num_seeds} seeds can show: a single difference counts from about "
      f"{alone:.1f} standard deviations over seeds on"
    )
    if num_comparisons > 1:
      line += (
        f", the clearest of {num_comparisons} comparisons from about "
        f"{together:.1f}"
      )
    line += (
      ". They cannot show that two rows are equally good: where no difference "
      "can be concluded, the interval says how large it may be."
    )
    lines.append(line)
  if num_comparisons:
    lines.append(
      f"Intervals hold for each comparison alone in {inference.PERCENT} of "
      "cases (Student's t; seeds, and evaluation examples by a paired "
      "bootstrap). "
      "Corrected p-values are Holm's, over all rows and columns: among those "
      f"at most {1 - inference.LEVEL:.2f} one is wrong in at most one of "
      "twenty studies."
    )
  if reasons:
    lines.append(
      "Evaluation examples are taken as they are, not as drawn from more of "
      f"their kind, in columns that need predictions {' '.join(reasons)}"
    )
  return tuple(lines)


def _of_one_seed(estimate: inference.Estimate) -> str:
  if estimate.low is None and estimate.examples_error is None:
    return "With one seed and without predictions nothing can be concluded."
  if estimate.low is None:
    return (
      "No choice of the examples changes that, so there is nothing to measure "
      "the difference against."
    )
  if estimate.low <= 0 <= estimate.high:
    return (
      "So many examples show no difference between these two models; with one "
      "seed nothing can be concluded about others."
    )
  return (
    "These two models differ by more than their examples do; with one seed "
    "nothing can be concluded about others."
  )


def _conclusion(found, row: str, num_comparisons: int, decimals: int) -> str:
  estimate = found.estimate
  if found.concluded:
    higher = estimate.difference > 0
    word = "worse" if higher == found.is_loss else "better"
    return f"{row} is {word}, by more than chance explains."
  if estimate.p_value <= 1 - inference.LEVEL:
    return (
      "By itself this would be a difference; as one of "
      f"{num_comparisons} comparisons it may well be chance."
    )
  if estimate.low is None:
    return "The two score the same with every seed."
  half = (estimate.high - estimate.low) / 2
  return (
    "No difference can be concluded: with these seeds and examples one below "
    f"about {half:.{decimals}f} cannot be detected."
  )
