"""Evaluations of a run on its validation splits."""

from collections.abc import Mapping, Sequence
import pathlib
from typing import Any

from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage.manifest import PreparedTask
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.runs import run_folder
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.loop import Periods

SPLIT = "validation"


def open_splits(
  evaluator: Evaluator,
  tasks: Sequence[PreparedTask],
  checkpointing: Checkpointing,
) -> dict[str, EvaluationSplit]:
  """Opens the validation splits of the tasks that have one.

  Args:
    evaluator: The evaluator that will score them.
    tasks: The tasks of a run.
    checkpointing: The rules of retention, which may name the metric of a task.

  Returns:
    The splits by the names of their tasks.

  Raises:
    UserError: Data or metrics cannot be used as they are, or no task has the
      metric that checkpoints are chosen by.
  """
  having = {task.name: task for task in tasks if SPLIT in task.splits}
  splits = {name: evaluator.open(task, SPLIT) for name, task in having.items()}
  checkpointing.check_metric(
    splits, lambda name: evaluator.names(having[name], SPLIT)
  )
  return splits


def describe_omissions(
  tasks: Sequence[PreparedTask],
  splits: Mapping[str, EvaluationSplit],
  periods: Periods,
) -> list[str]:
  """Describes what the evaluations of a run leave out.

  Args:
    tasks: The tasks of the run.
    splits: The splits that `open_splits` has found of them.
    periods: The periods of the run.
  """
  if not periods.evaluates:
    return ["EVAL_PERIOD=None: this run does not evaluate itself"]
  without = [task.name for task in tasks if task.name not in splits]
  lines = []
  if without:
    lines.append(
      f"without a split {SPLIT!r}, not evaluated: {', '.join(without)}"
    )
  for name, split in splits.items():
    if not any(split.truncated.values()):
      continue
    from transformer_zoo.runs import evaluation_report

    lines += [
      f"validation of {name}: {line}"
      for line in evaluation_report.truncation(
        split.truncated, split.num_examples, split.lengths
      )
    ]
  return lines


def validate(
  evaluator: Evaluator,
  tasks: Sequence[PreparedTask],
  folder: pathlib.Path,
  params: Any,
  step: int,
) -> dict[str, float]:
  """Scores parameters on the validation splits; writes the predictions.

  Args:
    evaluator: The evaluator that has opened the splits.
    tasks: The tasks whose splits are scored.
    folder: The folder of the predictions.
    params: The parameters on the devices.
    step: The number of the step that made them.

  Returns:
    The values by name, with `validation/average` if a task has scores.
  """
  values, scores = {}, {}
  for task in tasks:
    result = evaluator(params, task, SPLIT)
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
  if scores:
    from transformer_zoo.evaluation import averages

    average = averages.average(scores)
    if average is not None:
      values["validation/average"] = average
  return values
