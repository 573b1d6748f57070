"""Whether a column of a study ranks its rows as the publication does."""

import dataclasses
import math

import numpy as np

from transformer_zoo.ablations import published
from transformer_zoo.ablations import scores
from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.ablations.statistics import ranking
from transformer_zoo.ablations.statistics import study_resamples
from transformer_zoo.ablations.statistics import wording
from transformer_zoo.ablations.statistics.study_resamples import StudyResamples


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
    deviation=_published_deviation(study, column),
  )
  sentence = wording.of_ranking(found, column)
  return Agreement(column, tuple(cells), found, sentence)


def _published_deviation(study, column) -> float:
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
