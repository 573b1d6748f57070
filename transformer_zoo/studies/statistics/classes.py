"""Metrics of class ids, of many resamples at once.

Each takes targets and predictions of N examples and returns a function of
`counts_BN`, how often each of B resamples has each example.
"""

from collections.abc import Sequence

import numpy as np

from transformer_zoo.studies.statistics.sums import ratio
from transformer_zoo.studies.statistics.sums import Resampled


def f1(targets: Sequence[int], predictions: Sequence[int]) -> Resampled:
  """F1 of class 1; any prediction but 0 and 1 is the wrong one of them."""
  targets_N, predictions_N = np.asarray(targets), np.asarray(predictions)
  valid_N = (predictions_N == 0) | (predictions_N == 1)
  predictions_N = np.where(valid_N, predictions_N, 1 - targets_N)
  return lambda counts_BN: {
    "f1": 100 * _f1_of_class(counts_BN, targets_N == 1, predictions_N == 1)
  }


def f1_and_accuracy(
  targets: Sequence[int], predictions: Sequence[int]
) -> Resampled:
  """F1 of class 1, and accuracy."""
  f1_of = f1(targets, predictions)
  right_N = np.asarray(targets) == np.asarray(predictions)
  return lambda counts_BN: (
    f1_of(counts_BN)
    | {"accuracy": 100 * ratio(counts_BN @ right_N, counts_BN.sum(1))}
  )


def mean_f1(
  targets: Sequence[int], predictions: Sequence[int], *, num_classes: int
) -> Resampled:
  """The mean of the F1 of classes 0 to `num_classes` - 1."""
  targets_N, predictions_N = np.asarray(targets), np.asarray(predictions)

  def resampled(counts_BN):
    values = [
      _f1_of_class(counts_BN, targets_N == k, predictions_N == k)
      for k in range(num_classes)
    ]
    return {f"mean_{num_classes}class_f1": 100 * np.mean(values, axis=0)}

  return resampled


def matthews(targets: Sequence[int], predictions: Sequence[int]) -> Resampled:
  """Matthews correlation of any number of classes (Gorodkin 2004)."""
  targets_N, predictions_N = np.asarray(targets), np.asarray(predictions)
  classes_K = np.union1d(targets_N, predictions_N)
  right_N = targets_N == predictions_N
  targets_NK = targets_N[:, None] == classes_K
  predictions_NK = predictions_N[:, None] == classes_K

  def resampled(counts_BN):
    total_B = counts_BN.sum(1)
    targets_BK = counts_BN @ targets_NK
    predictions_BK = counts_BN @ predictions_NK
    shared_B = total_B * (counts_BN @ right_N)
    shared_B = shared_B - (targets_BK * predictions_BK).sum(1)
    spread_B = np.sqrt(total_B**2 - (targets_BK**2).sum(1))
    spread_B = spread_B * np.sqrt(total_B**2 - (predictions_BK**2).sum(1))
    return {"matthews_corrcoef": 100 * ratio(shared_B, spread_B)}

  return resampled


def _f1_of_class(counts_BN, target_N, prediction_N) -> np.ndarray:
  both_B = counts_BN @ (target_N & prediction_N)
  sizes_N = target_N.astype(float) + prediction_N
  return ratio(2 * both_B, counts_BN @ sizes_N)
