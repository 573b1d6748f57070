"""Whether a column of a study ranks its rows as the publication does."""

from collections.abc import Iterable
import dataclasses
import math

import numpy as np

from transformer_zoo.studies import published
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import ranking
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import study_resamples
from transformer_zoo.studies.statistics import wording
from transformer_zoo.studies.statistics.study_resamples import StudyResamples

_FEWEST_ROWS = 3


@dataclasses.dataclass(frozen=True)
class Agreement:
  """How far a column agrees with the published one.

  Attributes:
    column: the column's name.
    rows: the names of the rows that have both scores.
    ranking: Kendall's tau, its interval and what else is known of the order.
    sentence: what can be concluded, in words.
  """

  column: str
  rows: tuple[str, ...]
  ranking: ranking.Ranking
  sentence: str


@dataclasses.dataclass(frozen=True)
class MeanTau:
  """Kendall's tau, the mean over the columns of a study, and pairs of rows.

  Attributes:
    tau: from -1 to 1.
    low: lower end of its interval, of scores drawn within their errors, those
      of a row in all columns to the same side; so it is rather too wide. None
      where the errors of a column are not known.
    high: upper end.
    num_columns: of which it is the mean.
    num_clear: pairs of rows in a column that the publication tells apart.
    num_clear_same: those of them in the published order.
  """

  tau: float
  low: float | None
  high: float | None
  num_columns: int
  num_clear: int
  num_clear_same: int

  @property
  def sentence(self) -> str:
    """The number with its interval, in words."""
    text = (
      f"Order of the rows: Kendall's tau {wording.signed(self.tau)}, the mean "
      f"of columns: {self.num_columns}"
    )
    if self.low is not None:
      ends = f"{wording.signed(self.low)} to {wording.signed(self.high)}"
      text += f" (95 % interval {ends})"
    return (
      f"{text}, 1 being the published order and −1 its reverse. Of "
      f"{self.num_clear} pairs of rows that the publication tells apart "
      f"{self.num_clear_same} stand in its order."
    )


def agreement(
  study: StudyResults, column: str, resamples: StudyResamples | None = None
) -> Agreement:
  """Compares the order of the rows in a column with the published order.

  Args:
    study: what the study's runs came to.
    column: the column's name.
    resamples: of `resample(study)`, to compute them once.
  """
  resamples = resamples or study_resamples.resample(study)
  table = scores.build(study)
  cells = {
    row: cell
    for row, cell in table.of_column(column).items()
    if cell.mean is not None and cell.published is not None
  }
  found = ranking.rank(
    [cell.mean for cell in cells.values()],
    [cell.published for cell in cells.values()],
    our_noise_BR=_noise(cells, column, resamples),
    deviation=published_deviation(study, column),
  )
  sentence = wording.of_ranking(found, column)
  return Agreement(column, tuple(cells), found, sentence)


def mean_tau(agreements: Iterable[Agreement]) -> MeanTau | None:
  """Returns the mean over columns, None without one of three rows or more."""
  rankings = [
    one.ranking
    for one in agreements
    if one.ranking.tau is not None and one.ranking.num_rows >= _FEWEST_ROWS
  ]
  if not rankings:
    return None
  tau = float(np.mean([one.tau for one in rankings]))
  low = high = None
  drawn = [one.taus_B for one in rankings]
  if all(taus_B is not None for taus_B in drawn):
    fewest = min(map(len, drawn))
    means_B = np.mean([taus_B[:fewest] for taus_B in drawn], axis=0)
    low, high = ranking.interval(means_B)
  return MeanTau(
    tau=tau,
    low=low,
    high=high,
    num_columns=len(rankings),
    num_clear=sum(one.num_clear for one in rankings),
    num_clear_same=sum(one.num_clear_same for one in rankings),
  )


def published_deviation(study: StudyResults, column: str) -> float:
  """Returns the deviation over runs of a published column, 0 if not given."""
  if not study.published:
    return 0.0
  deviations = published.load(study.published).deviations
  names = {c.name: scores.published_name(c) for c in study.columns}
  return deviations.get(names.get(column), 0.0)


def _noise(cells, column, resamples) -> np.ndarray | None:
  """What seeds and examples may add to the means [B, R].

  The examples by resamples that all rows share; the seeds by a normal
  distribution with the standard error of a row's mean.
  """
  draws = np.random.default_rng(0)
  noise = []
  for row, cell in cells.items():
    drawn_BS = resamples.of_seeds(column, row, cell.values)
    if cell.deviation is None and drawn_BS is None:
      return None
    noise_B = np.zeros(study_resamples.RESAMPLES)
    if drawn_BS is not None:
      noise_B = drawn_BS.mean(1) - cell.mean
    if cell.deviation is not None:
      error = cell.deviation / math.sqrt(len(cell.values))
      noise_B = noise_B + draws.normal(0, error, len(noise_B))
    noise.append(noise_B)
  if not noise:
    return None
  fewest = min(map(len, noise))
  return np.stack([one[:fewest] for one in noise], axis=1)
