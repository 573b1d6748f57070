"""Correlations of many resamples at once.

Each takes targets and predictions of N examples and returns a function of
`counts_BN`, how often each of B resamples has each example. As the metrics
themselves, they are 0 where a correlation is undefined.
"""

from collections.abc import Sequence

import numpy as np

from transformer_zoo.studies.statistics.sums import ratio
from transformer_zoo.studies.statistics.sums import Resampled


def pearson(
  targets: Sequence[float], predictions: Sequence[float]
) -> Resampled:
  """Pearson's correlation."""
  x_N, y_N, broken_N = _finite(targets, predictions)
  x_N, y_N = x_N - x_N.mean(), y_N - y_N.mean()

  def resampled(counts_BN):
    value_B = _correlation(counts_BN, x_N[None], y_N[None])
    return {
      "pearson_corrcoef": np.where(counts_BN @ broken_N > 0, 0.0, value_B)
    }

  return resampled


def spearman(
  targets: Sequence[float], predictions: Sequence[float]
) -> Resampled:
  """Spearman's correlation: examples are ranked anew in every resample."""
  x_N, y_N, broken_N = _finite(targets, predictions)

  def resampled(counts_BN):
    value_B = _correlation(
      counts_BN, _ranks(counts_BN, x_N), _ranks(counts_BN, y_N)
    )
    return {
      "spearman_corrcoef": np.where(counts_BN @ broken_N > 0, 0.0, value_B)
    }

  return resampled


def _finite(targets, predictions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Both as numbers, and where one of them is none."""
  x_N, y_N = np.asarray(targets, float), np.asarray(predictions, float)
  broken_N = ~(np.isfinite(x_N) & np.isfinite(y_N))
  return np.where(broken_N, 0.0, x_N), np.where(broken_N, 0.0, y_N), broken_N


def _correlation(counts_BN, x_BN, y_BN) -> np.ndarray:
  """100 times Pearson's correlation; 0 where a side is constant."""
  total_B1 = counts_BN.sum(1, keepdims=True)
  x_BN = x_BN - (counts_BN * x_BN).sum(1, keepdims=True) / total_B1
  y_BN = y_BN - (counts_BN * y_BN).sum(1, keepdims=True) / total_B1
  shared_B = (counts_BN * x_BN * y_BN).sum(1)
  x_B, y_B = (counts_BN * x_BN**2).sum(1), (counts_BN * y_BN**2).sum(1)
  # What rounding leaves of a constant is no spread.
  flat_B = np.minimum(x_B, y_B) < 1e-12 * total_B1[:, 0]
  return 100 * ratio(shared_B, np.where(flat_B, 0.0, np.sqrt(x_B * y_B)))


def _ranks(counts_BN, values_N) -> np.ndarray:
  """Ranks of the examples of each resample, equal values sharing theirs."""
  order = np.argsort(values_N, kind="stable")
  starts = np.flatnonzero(np.diff(values_N[order], prepend=-np.inf))
  sizes_BU = np.add.reduceat(counts_BN[:, order], starts, axis=1)
  ranks_BU = np.cumsum(sizes_BU, axis=1) - (sizes_BU - 1) / 2
  _, of_value_N = np.unique(values_N, return_inverse=True)
  return ranks_BU[:, of_value_N]
