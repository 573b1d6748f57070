"""The interface of scorers, as an evaluator uses them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from transformer_zoo.data.loader.evaluation_split import EvaluationBatch
from transformer_zoo.data.storage import manifest

Put = Callable[[dict[str, np.ndarray]], dict[str, jax.Array]]
Row = dict[str, Any]


class Scorer(Protocol):
  """From batches to a row of JSON values for each example.

  A row has `log_likelihood` of the targets in nats, their number
  `target_tokens`, `correct_tokens`, how many of them are the likeliest, and
  `prediction` where one was asked for.
  """

  def settings(self, *, answered: bool) -> dict[str, str]:
    """Returns what rows depend on beside the model and the data, in parts.

    Args:
      answered: Whether predictions are wanted.
    """

  def compute(
    self, params: Any, batch: EvaluationBatch, put: Put, *, answered: bool
  ) -> Any:
    """Begins a batch on the devices.

    Args:
      params: The parameters of the model.
      batch: The examples.
      put: lays arrays of the host out on the devices.
      answered: Whether predictions are wanted.

    Returns:
      A tree of arrays on the devices.
    """

  def rows(
    self, task: manifest.PreparedTask, batch: EvaluationBatch, outputs: Any
  ) -> list[Row]:
    """Returns the row of each example.

    Args:
      task: The task.
      batch: The examples.
      outputs: The arrays of `compute`, on the host.
    """

  def joined(
    self,
    task: manifest.PreparedTask,
    examples: Sequence[Mapping[str, Any]],
    rows: Sequence[Row],
  ) -> tuple[list[Mapping[str, Any]], list[Row]]:
    """Returns an example and a row for each question of a split.

    They are fewer where an example stands in several rows, as a long context
    does.

    Args:
      task: The task.
      examples: The examples of the split, as `evaluator.scored_example` returns
        them.
      rows: The row of each.
    """
