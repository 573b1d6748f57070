"""Scores of a study on resamples of the evaluation examples."""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
import itertools
import math
import os
import pathlib
import zlib

import numpy as np

from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import MEDIAN
from transformer_zoo.studies.execution.results import RunResult
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import predictions
from transformer_zoo.studies.statistics.resampled_metrics import Resampled

RESAMPLES = 1000
# Where a metric has to be called anew for each resample.
_SLOW_RESAMPLES = 200
# Resamples at once: so many that a table of counts has about 32 MB.
_MOST_COUNTS = 4_000_000

_Run = tuple[str, int]  # row and seed
_Scored = tuple[str, str]  # group and task
_Values = Mapping[str, np.ndarray]  # metric -> values [B]


@dataclasses.dataclass(frozen=True)
class StudyResamples:
  """Scores of columns on resamples that all rows and seeds share.

  Attributes:
    values: The scores [B] by (column, row, seed). Scores that predictions do
      not determine are left out.
    reasons: Sentences about the tasks that are left out, and why.
  """

  values: Mapping[tuple[str, str, int], np.ndarray]
  reasons: tuple[str, ...]

  def of_seeds(
    self, column: str, row: str, seeds: Iterable[int]
  ) -> np.ndarray | None:
    """Returns the scores of a row [B, S], None where a seed has none."""
    found = [self.values.get((column, row, seed)) for seed in seeds]
    if not found or any(values is None for values in found):
      return None
    return np.stack(found, axis=1)

  def seed_means(
    self, columns: Sequence[str], row: str, seeds: Iterable[int]
  ) -> np.ndarray | None:
    """Returns a row's mean of columns [B, S], None where a seed has none."""
    seeds = tuple(seeds)
    found = [self.of_seeds(column, row, seeds) for column in columns]
    if any(values is None for values in found):
      return None
    return np.mean(found, axis=0)


def resample(study: StudyResults) -> StudyResamples:
  """Computes the columns of a study on resamples of each task's examples."""
  # (column, row, seed) -> of each part, (scored, metric) -> its weight.
  weights = {}
  for column in study.columns:
    parts = _linear_parts(column)
    for row in study.rows:
      for seed, scores in study.scores(row, column.of_group).items():
        of_parts = [_weights(part, scores) for part in parts]
        weights[column.name, row, seed] = of_parts if all(of_parts) else []
  every = {}  # scored -> the metrics of it that columns have, in order
  for of_parts in weights.values():
    for scored, metric in itertools.chain(*of_parts):
      every.setdefault(scored, {})[metric] = None
  found, unusable = {}, {}
  for scored, metrics in every.items():
    try:
      of_runs = _of_task(scored[1], _runs(study, *scored), metrics)
      for run, values in of_runs.items():
        found[scored, run] = values
    except predictions.Unusable as error:
      unusable.setdefault(error.reason, {})[scored[1]] = error.path
  values = {
    (column, row, seed): _median_of_sums(of_parts, found, (row, seed))
    for (column, row, seed), of_parts in weights.items()
    if of_parts
    and all(
      (scored, (row, seed)) in found for scored, _ in itertools.chain(*of_parts)
    )
  }
  reasons = tuple(_reason(study, *item) for item in unusable.items())
  return StudyResamples(_equally_many(values), reasons)


def resample_task(
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
    task: The name of the task.
    of_unit: The number of the unit of each example, [N].
    num_resamples: The number of resamples, B.
    functions: The metrics of each run.

  Returns:
    For each function, the values [B] by metric.
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


def _reason(study, reason, paths) -> str:
  path = os.path.relpath(next(iter(paths.values())), study.folder)
  return f"of {', '.join(paths)}: {reason}, {pathlib.Path(path).as_posix()!r}."


def _linear_parts(column: Column) -> list[Column]:
  """The parts whose median a column's score is: of most columns itself."""
  if column.average != MEDIAN:
    return [column]
  return [
    dataclasses.replace(column, average="", scores=(score,))
    for score in column.scores
  ]


def _weights(column: Column, scores) -> dict[tuple[_Scored, str], float]:
  """The weight of each metric in a column's score, which is linear in them."""
  zeros = {
    task: dict.fromkeys(metrics, 0.0) for task, metrics in scores.items()
  }
  if column.score(zeros) is None:
    return {}
  weights = {}
  for task, metrics in zeros.items():
    for metric in metrics:
      one = zeros | {task: metrics | {metric: 1.0}}
      scored = column.of_group, task
      weights[scored, metric] = column.score(one)
  return {name: weight for name, weight in weights.items() if weight}


def _runs(study, group, task) -> dict[_Run, RunResult]:
  """The runs that score a task for a group, by row and seed."""
  return {
    (run.row, run.seed): run
    for run in study.runs
    if run.scored and run.group in ("", group) and task in run.scores
  }


def _of_task(
  task: str, runs: Mapping[_Run, RunResult], metrics: Collection[str]
) -> dict[_Run, _Values]:
  """Evaluates a task's metrics for all runs on the same resamples.

  Raises:
    Unusable: The predictions of a run are missing, belong to other examples
      than another run's, or do not give the recorded scores.
  """
  paths = {run: result.predictions(task) for run, result in runs.items()}
  read = {
    path: predictions.read(path) for path in dict.fromkeys(paths.values())
  }
  first = next(iter(read.values()))
  for path, other in read.items():
    if other.targets != first.targets:
      raise predictions.Unusable("other examples than in other runs", path)
  functions = {path: one.resampled() for path, one in read.items()}
  for run, result in runs.items():
    of_run = result.scores[task].items()
    scores = {metric: score for metric, score in of_run if metric in metrics}
    _check(functions[paths[run]], first.targets, scores, paths[run])
  fast = all(one.fast for one in read.values())
  values = resample_task(
    task,
    first.units(),
    RESAMPLES if fast else _SLOW_RESAMPLES,
    list(functions.values()),
  )
  of_path = dict(zip(functions, values, strict=True))
  for path, of_metrics in of_path.items():
    for metric in metrics:
      if not np.isfinite(of_metrics.get(metric, math.nan)).all():
        reason = f"{metric} has no value on some resamples"
        raise predictions.Unusable(reason, path)
  return {run: of_path[path] for run, path in paths.items()}


def _check(
  function: Resampled,
  targets: Sequence,
  scores: Mapping[str, float],
  path: pathlib.Path,
) -> None:
  """Raises Unusable unless predictions give the scores that a run has."""
  once = function(np.ones((1, len(targets))))
  for metric, score in scores.items():
    if metric not in once or not np.isclose(once[metric][0], score, atol=1e-6):
      reason = f"predictions do not give the run's {metric}, {score:.4f}"
      raise predictions.Unusable(reason, path)


def _median_of_sums(of_parts, found, run: _Run) -> np.ndarray:
  sums = [_weighted_sum(used, found, run) for used in of_parts]
  fewest = min(map(len, sums))
  return np.median([values[:fewest] for values in sums], axis=0)


def _weighted_sum(used, found, run: _Run) -> np.ndarray:
  parts = [
    weight * found[scored, run][metric]
    for (scored, metric), weight in used.items()
  ]
  fewest = min(map(len, parts))
  return np.sum([part[:fewest] for part in parts], axis=0)


def _equally_many(values):
  """Cuts scores to the number of resamples that all have."""
  fewest = min(map(len, values.values()), default=0)
  return {key: scores[:fewest] for key, scores in values.items()}
