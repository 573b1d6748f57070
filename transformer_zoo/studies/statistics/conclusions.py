"""Published conclusions: whether they hold in a study.

A conclusion compares the means of two sets of rows, in the mean of columns or
in one column, or their costs. Its verdict follows from the 95 % interval of the
study's own difference.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import enum

import numpy as np

from transformer_zoo.studies import published
from transformer_zoo.studies.design.suite import MEAN
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.published import Conclusion
from transformer_zoo.studies.statistics import budgets as budgets_lib
from transformer_zoo.studies.statistics import inference
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import wording
from transformer_zoo.studies.statistics.budgets import Budget
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.studies.statistics.study_resamples import StudyResamples

# Points within which rows count as equal, and a worse row as slightly worse. It
# is the difference that the miniature suite is built to see.
MARGIN = 3.0

# The relation of the numbers where less is better. Losses have no margin.
OF_LOSSES = {"better": "worse", "worse": "better"}


class Verdict(enum.Enum):
  """The verdict on a published conclusion."""

  HOLDS = "holds"
  REVERSED = "reversed"
  OPEN = "cannot be told"
  NOT_RUN = "not run"


@dataclasses.dataclass(frozen=True)
class Judged:
  """A published conclusion with its verdict in a study.

  Attributes:
    conclusion: The conclusion.
    verdict: The verdict.
    column: The name of the study's column, `MEAN`, or "FLOPs" for the cost.
    compared: The rows that are compared, as a difference in words.
    estimate: The difference with its interval; None of costs, and where no seed
      has all rows.
    cost: The FLOPs of the rows over the FLOPs of the others; None of scores,
      and where they are unknown.
  """

  conclusion: Conclusion
  verdict: Verdict
  column: str
  compared: str
  estimate: inference.Estimate | None = None
  cost: float | None = None

  @property
  def measured(self) -> str:
    """The difference with its interval, or the ratio of costs, as text."""
    if self.cost is not None:
      return f"× {self.cost:.2f}"
    if self.estimate is None:
      return "—"
    text = wording.signed(self.estimate.difference)
    if self.estimate.low is None:
      return text
    ends = (wording.signed(e) for e in (self.estimate.low, self.estimate.high))
    return f"{text} ({' to '.join(ends)})"

  @property
  def comparison(self) -> str:
    """The rows, the column, and the relation that they should have."""
    relation = self.conclusion.relation
    if relation in ("slightly worse", "equal", "not worse"):
      relation += f", margin {MARGIN:.0f}"
    return f"{self.compared} ({self.column}; {relation})"

  @property
  def sentence(self) -> str:
    """The conclusion, its verdict and what it rests on."""
    return (
      f"{self.conclusion.claim}: {self.verdict.value}. {self.comparison}: "
      f"{self.measured}."
    )


def judge(
  study: StudyResults,
  table: Table,
  resamples: StudyResamples,
  budgets: Mapping[str, Budget],
) -> tuple[Judged, ...]:
  """Judges the conclusions of the published table of a study.

  Args:
    study: The results of the study's runs.
    table: The scores of the study.
    resamples: The result of `resample(study)`.
    budgets: The costs of the rows.

  Returns:
    The conclusions with their verdicts. Those that compare rows or a column
    that the study lacks are left out.
  """
  if not study.published:
    return ()
  names = {info.published: row for row, info in study.rows.items()}
  beside = {scores.published_name(c): c for c in study.columns}
  found = []
  for one in published.load(study.published).conclusions:
    if not {*one.rows, *one.than} <= names.keys():
      continue
    sides = [[names[label] for label in side] for side in (one.rows, one.than)]
    compared = " − ".join(_mean_of(table, side) for side in sides)
    if one.relation == "cheaper":
      cost = _cost(budgets, *sides)
      compared = compared.replace(" − ", " over ")
      found.append(Judged(one, _of_cost(cost), "FLOPs", compared, cost=cost))
      continue
    columns, relation = table.score_columns, one.relation
    if one.column:
      if one.column not in beside:
        continue
      columns = (beside[one.column].name,)
      if beside[one.column].is_loss:
        relation = OF_LOSSES[relation]
    if columns:
      column = columns[0] if len(columns) == 1 else MEAN
      estimate = _estimate(table, resamples, columns, *sides)
      verdict = of_interval(relation, estimate)
      found.append(Judged(one, verdict, column, compared, estimate))
  return tuple(found)


def sentences(judged: Sequence[Judged]) -> list[str]:
  """Returns a count of verdicts and each conclusion in words."""
  if not judged:
    return []
  counts = ", ".join(
    f"{verdict.value} {sum(one.verdict is verdict for one in judged)}"
    for verdict in Verdict
  )
  head = f"Conclusions of the publication ({len(judged)}): {counts}."
  return [head, *(one.sentence for one in judged)]


def of_interval(relation: str, estimate: inference.Estimate | None) -> Verdict:
  """Returns the verdict on a relation that scores have.

  Args:
    relation: One of `published.RELATIONS` but "cheaper".
    estimate: The difference with its interval, which a single seed lacks; None
      where no seed has all rows.
  """
  if estimate is None:
    return Verdict.NOT_RUN
  if estimate.low is None or estimate.p_value is None:
    return Verdict.OPEN
  low, high = estimate.low, estimate.high
  holds, is_reversed = {
    "better": (low > 0, high < 0),
    "worse": (high < 0, low > 0),
    "slightly worse": (-MARGIN < low and high < 0, low > 0 or high < -MARGIN),
    "equal": (-MARGIN < low and high < MARGIN, low > MARGIN or high < -MARGIN),
    "not worse": (low > -MARGIN, high < -MARGIN),
  }[relation]
  if holds:
    return Verdict.HOLDS
  return Verdict.REVERSED if is_reversed else Verdict.OPEN


def _of_cost(cost: float | None) -> Verdict:
  if cost is None:
    return Verdict.NOT_RUN
  if budgets_lib.is_equal(cost):
    return Verdict.OPEN
  return Verdict.HOLDS if cost < 1 else Verdict.REVERSED


def _cost(budgets, rows, than) -> float | None:
  if not {*rows, *than} <= budgets.keys():
    return None
  ours, theirs = (
    np.mean([budgets[row].flops for row in side]) for side in (rows, than)
  )
  return float(ours / theirs) if theirs else None


def _estimate(
  table, resamples, columns, rows, than
) -> inference.Estimate | None:
  """The mean of rows minus the mean of others, over the seeds of all."""
  every = [*rows, *than]
  values = [table.seed_means(row, columns) for row in every]
  seeds = [s for s in values[0] if all(s in of_row for of_row in values)]
  if not seeds:
    return None
  weights_R = np.repeat([1 / len(rows), -1 / len(than)], [len(rows), len(than)])
  drawn = [resamples.seed_means(columns, row, seeds) for row in every]
  variance = None
  if all(row_BS is not None for row_BS in drawn):
    variance = inference.examples_variance(np.tensordot(weights_R, drawn, 1))
  scores_RS = np.array([[of_row[s] for s in seeds] for of_row in values])
  return inference.contrast(scores_RS, weights_R, variance)


def _mean_of(table: Table, rows: Sequence[str]) -> str:
  if len(rows) == 1:
    return table.labels[rows[0]]
  return f"mean of {len(rows)} rows"
