"""Predictions of a run, with the metrics that scored them."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import json
import pathlib
from typing import Any

import numpy as np

from transformer_zoo.checkpoints import run_layout
from transformer_zoo.data.storage import function_references
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import task_scores
from transformer_zoo.studies.statistics import resampled_metrics
from transformer_zoo.studies.statistics.resampled_metrics import Resampled


class Unusable(Exception):
  """Predictions that no statistic can be computed from.

  Attributes:
    reason: The reason, without the name of the file.
    path: The path of the file.
  """

  def __init__(self, reason: str, path: pathlib.Path):
    super().__init__(f"{reason}: {path}")
    self.reason = reason
    self.path = path


@dataclasses.dataclass(frozen=True)
class Predictions:
  """The predictions of a run for the evaluation examples of a task.

  Attributes:
    targets: The targets of the metrics, one per example.
    scored: The metrics, each with the answers or log-likelihoods that it
      compares with the targets, and with the numbers of tokens or words of
      the targets where it has them as arguments.
  """

  targets: Sequence[Any]
  scored: Sequence[tuple[Callable, Sequence[Any]]]

  @property
  def fast(self) -> bool:
    """Whether all metrics are evaluated on many resamples at once."""
    return all(resampled_metrics.is_known(metric) for metric, _ in self.scored)

  def units(self) -> np.ndarray:
    """The number of the unit of each example, [N]; units are drawn whole."""
    found = [resampled_metrics.units(m, self.targets) for m, _ in self.scored]
    return min(found, key=lambda of_unit: of_unit.max())

  def resampled(self) -> Resampled:
    """All metrics as one function of counts."""
    parts = [
      resampled_metrics.of_metric(metric, self.targets, compared)
      for metric, compared in self.scored
    ]
    return lambda counts_BN: {
      name: values for part in parts for name, values in part(counts_BN).items()
    }


def read(path: pathlib.Path) -> Predictions:
  """Reads the predictions in a file and the scoring named beside it.

  Raises:
    Unusable: A file is missing or damaged or lacks the answers that the metrics
      compare, or a metric cannot be imported.
  """
  scoring = _read(run_layout.scoring_path(path), json.loads)
  lines = _read(path, lambda text: [*map(json.loads, text.splitlines())])
  kinds = (("metrics", "answer"), ("score_metrics", "log_likelihood"))
  try:
    return Predictions(
      targets=_column(lines, "target_answer", path),
      scored=[
        (_metric(reference, lines), _column(lines, compared, path))
        for kind, compared in kinds
        for reference in scoring[kind]
      ],
    )
  except UserError as error:
    raise Unusable("a metric cannot be imported here", path) from error


def _metric(reference: Mapping[str, Any], lines: Sequence[Mapping]) -> Callable:
  metric = function_references.resolve(reference)
  counts = task_scores.columns(lines)
  asked = task_scores.counts_of(metric) & counts.keys()
  if not asked:
    return metric
  return functools.partial(metric, **{name: counts[name] for name in asked})


def _read(path: pathlib.Path, parse: Callable[[str], Any]) -> Any:
  try:
    return parse(path.read_text(encoding="utf-8"))
  except (OSError, ValueError) as error:
    reason = f"a file cannot be read ({type(error).__name__})"
    raise Unusable(reason, path) from error


def _column(lines: Sequence[Mapping], name: str, path) -> list[Any]:
  if not lines or not all(name in line for line in lines):
    raise Unusable(f"{name!r} is not in every line", path)
  return [line[name] for line in lines]
