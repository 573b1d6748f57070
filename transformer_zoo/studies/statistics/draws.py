"""Resamples of evaluation examples, the same for all rows and seeds."""

from collections.abc import Sequence
import zlib

import numpy as np

from transformer_zoo.studies.statistics.sums import Resampled

# Resamples at once: so many that a table of counts has about 32 MB.
_MOST_COUNTS = 4_000_000


def resample(
  task: str,
  of_unit: np.ndarray,
  num_resamples: int,
  functions: Sequence[Resampled],
) -> list[dict[str, np.ndarray]]:
  """Evaluates metrics on resamples of a task's examples.

  Units are drawn with replacement, as many as there are, by a generator seeded
  with the task's name; so the resamples of a task are the same for every row,
  seed, study and report.

  Args:
    task: its name.
    of_unit: number of the unit that each example belongs to, [N].
    num_resamples: how many.
    functions: the metrics of each run.

  Returns:
    For each function, metric -> its values [B].
  """
  num_units = int(of_unit.max()) + 1
  draws = np.random.default_rng([zlib.crc32(task.encode()), num_units])
  most = max(1, _MOST_COUNTS // len(of_unit))
  parts = [[] for _ in functions]
  for first in range(0, num_resamples, most):
    size = min(most, num_resamples - first)
    places = draws.integers(num_units, size=(size, num_units))
    places += np.arange(size)[:, None] * num_units
    counts = np.bincount(places.ravel(), minlength=size * num_units)
    counts_BN = counts.reshape(size, num_units)[:, of_unit].astype(float)
    for part, function in zip(parts, functions, strict=True):
      part.append(function(counts_BN))
  return [
    {name: np.concatenate([chunk[name] for chunk in part]) for name in part[0]}
    for part in parts
  ]
