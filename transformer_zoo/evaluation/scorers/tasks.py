"""Scores of several tasks, each by the head of its own."""

from collections.abc import Mapping
import dataclasses

import numpy as np

from transformer_zoo.evaluation.scorers.interface import Scorer


@dataclasses.dataclass(frozen=True)
class OfTasks:
  """Reads the head that is named after a task.

  Attributes:
    scorers: The scorer of each task, in the order of their names.
  """

  scorers: Mapping[str, Scorer]

  def settings(self, *, answered):
    """As `Scorer.settings`."""
    return {
      f"{task}/{name}": value
      for task, scorer in self.scorers.items()
      for name, value in scorer.settings(answered=answered).items()
    }

  def compute(self, params, batch, put, *, answered):
    """As `Scorer.compute`; all rows of a batch are of one task."""
    number = int(np.max(batch.arrays["encoder_heads"]))
    scorer = [*self.scorers.values()][number]
    return scorer.compute(params, batch, put, answered=answered)

  def rows(self, task, batch, outputs):
    """As `Scorer.rows`."""
    return self.scorers[task.name].rows(task, batch, outputs)

  def joined(self, task, examples, rows):
    """As `Scorer.joined`."""
    return self.scorers[task.name].joined(task, examples, rows)
