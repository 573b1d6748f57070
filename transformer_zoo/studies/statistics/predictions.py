"""What a run predicted, and the metrics that scored it."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from transformer_zoo.data.storage import function_references
from transformer_zoo.errors import UserError
from transformer_zoo.runs import run_folder
from transformer_zoo.studies.statistics import resampled_metrics
from transformer_zoo.studies.statistics.resampled_metrics import Resampled


class Unusable(Exception):
  """Predictions that no statistic can be computed from.

  Attributes:
    reason: why, for any file.
    path: the file.
  """

  def __init__(self, reason: str, path: pathlib.Path):
    super().__init__(f"{reason}: {path}")
    self.reason = reason
    self.path = path


@dataclasses.dataclass(frozen=True)
class Predictions:
  """The predictions of a run for the evaluation examples of a task.

  Attributes:
    targets: what the metrics compare with, one per example.
    scored: the metrics, each with what it compares with the targets: answers,
      or log-likelihoods.
  """

  targets: Sequence[Any]
  scored: Sequence[tuple[Callable, Sequence[Any]]]

  @property
  def fast(self) -> bool:
    """Whether resamples of all metrics cost no more than sums."""
    return all(resampled_metrics.is_known(metric) for metric, _ in self.scored)

  def units(self) -> np.ndarray:
    """Which examples are drawn together, as numbers of units [N]."""
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
    Unusable: a file is missing or damaged, it does not tell the answers that
      the metrics compare, or a metric cannot be imported here.
  """
  scoring = _read(run_folder.scoring_path(path), json.loads)
  lines = _read(path, lambda text: [*map(json.loads, text.splitlines())])
  kinds = (("metrics", "answer"), ("score_metrics", "log_likelihood"))
  try:
    return Predictions(
      targets=_column(lines, "target_answer", path),
      scored=[
        (function_references.resolve(reference), _column(lines, compared, path))
        for kind, compared in kinds
        for reference in scoring[kind]
      ],
    )
  except UserError as error:
    raise Unusable("a metric cannot be imported here", path) from error


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
