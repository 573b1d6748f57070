"""What a run's own evaluations record."""

from collections.abc import Sequence
import pathlib
from typing import Any

from transformer_zoo.data.manifest import PreparedTask
from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.experiment import run_folder


def validate(
  evaluator: Evaluator,
  tasks: Sequence[PreparedTask],
  folder: pathlib.Path,
  params: Any,
  step: int,
) -> dict[str, float]:
  """Scores parameters on the validation splits; writes the predictions.

  Args:
    evaluator: has opened them.
    tasks: whose splits they are.
    folder: of the predictions.
    params: on the devices.
    step: that made them.

  Returns:
    Values by name, and `validation/average` where a task has scores.
  """
  values, scores = {}, {}
  for task in tasks:
    result = evaluator(params, task, "validation")
    values[f"validation/{task.name}/loss"] = result.loss
    values[f"validation/{task.name}/token_accuracy"] = result.accuracy
    for metric, value in result.scores.items():
      values[f"validation/{task.name}/{metric}"] = value
    if result.invalid is not None:
      values[f"validation/{task.name}/invalid"] = result.invalid
    if result.scores:
      scores[task.name] = result.scores
      path = folder / str(step) / f"{task.name}.jsonl"
      run_folder.write_predictions(path, result)
  average = averages.average(scores)
  if average is not None:
    values["validation/average"] = average
  return values
