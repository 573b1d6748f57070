"""The result of an evaluation, as JSON and as lines to read."""

from collections.abc import Mapping
import json
from typing import Any

from transformer_zoo.data.features import converters
from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.evaluation.evaluator import OF_TOKENS
from transformer_zoo.evaluation.evaluator import TaskResult


def as_json(
  checkpoint: str | list[str],
  split: str,
  results: Mapping[str, TaskResult],
  without_split: list[str],
) -> dict[str, Any]:
  """Returns the result of one checkpoint.

  Args:
    checkpoint: The folder of the checkpoint, or of each member of an ensemble.
    split: The name of the split.
    results: The results by task.
    without_split: The names of the tasks that lack the split.
  """
  scores = {
    name: result.scores for name, result in results.items() if result.scores
  }
  template_of = {
    name: result.template_of
    for name, result in results.items()
    if result.template_of
  }
  templates = (
    {"templates": averages.of_templates(scores, template_of)}
    if template_of
    else {}
  )
  return {
    "checkpoint": checkpoint,
    "split": split,
    "scores": scores,
    "average": averages.average(scores),
    "benchmarks": averages.describe(scores),
    **templates,
    "loss": {name: result.loss for name, result in results.items()},
    "token_accuracy": {
      name: 100.0 * result.accuracy
      for name, result in results.items()
      if result.scoring == OF_TOKENS
    },
    "num_examples": {
      name: result.num_examples for name, result in results.items()
    },
    "truncated": {
      name: result.truncated
      for name, result in results.items()
      if any(result.truncated.values())
    },
    "invalid": {
      name: result.invalid
      for name, result in results.items()
      if result.invalid is not None
    },
    "signatures": {
      name: result.signature
      for name, result in results.items()
      if result.signature
    },
    "without_split": without_split,
  }


def of_checkpoint(result: Mapping[str, Any], evaluator: Evaluator) -> list[str]:
  """Returns the lines about one checkpoint.

  Args:
    result: The result of `as_json`, with `submission` if files were written.
    evaluator: The evaluator that made it.
  """
  lengths = converters.with_room(evaluator.converter, evaluator.lengths)
  folders = result["checkpoint"]
  named = folders if isinstance(folders, str) else " and ".join(folders)
  lines = [f"{named}, split {result['split']}"]
  width = max(map(len, result["num_examples"]))
  for name, number in result["num_examples"].items():
    parts = [f"{metric} {value:.2f}" for metric, value in _scores(result, name)]
    if name in result["invalid"]:
      parts.append(f"{result['invalid'][name]} invalid predictions")
    if "submission" not in result:
      parts.append(f"loss {result['loss'][name]:.4f}")
    if name in result["token_accuracy"]:
      parts.append(f"{result['token_accuracy'][name]:.2f} % of target tokens")
    lines.append(
      f"  {name:{width}}  {number:,} examples  {'  '.join(parts)}".rstrip()
    )
    if name in result["signatures"]:
      lines.append(f"  {'':{width}}  BLEU: {result['signatures'][name]}")
    lines += [
      f"  {'':{width}}  {text}"
      for text in truncation(result["truncated"].get(name, {}), number, lengths)
    ]
  if result["without_split"]:
    lines.append(
      f"without a split {result['split']!r}, passed over: "
      + ", ".join(result["without_split"])
    )
  if result["average"] is not None:
    scored = sum(map(averages.has_score, result["scores"].values()))
    lines.append(f"average of {scored} scored tasks: {result['average']:.2f}")
  lines += averages.report(result["scores"])
  lines += _of_templates(result.get("templates"))
  return lines + _of_submission(result.get("submission"))


def of_step(
  step: int, results: Mapping[str, TaskResult], average: float | None
) -> list[str]:
  """Returns the table of one evaluation of a training run.

  Args:
    step: The number of the step that made the parameters.
    results: The results on the validation splits by task.
    average: The mean of the task scores; None without scores.
  """
  if not results:
    return []
  width = max(map(len, ("average", *results)))
  lines = [f"validation at step {step}", f"  {'task':{width}}    loss  scores"]
  for name, result in results.items():
    parts = [f"{metric} {value:.2f}" for metric, value in result.scores.items()]
    if result.invalid:
      parts.append(f"{result.invalid} invalid predictions")
    if not result.scores:
      parts = [f"{100 * result.accuracy:.2f} % of target tokens"]
    lines.append(f"  {name:{width}}  {result.loss:6.4f}  {'  '.join(parts)}")
  if average is not None and len(results) > 1:
    lines.append(f"  {'average':{width}}          {average:.2f}")
  return lines


def truncation(
  truncated: Mapping[str, int], number: int, lengths: Mapping[str, int]
) -> list[str]:
  """Returns a sentence for each feature of which examples were cut.

  Args:
    truncated: The number of cut examples of each feature.
    number: The number of examples.
    lengths: The number of tokens of each feature.
  """
  return [
    f"{count:,} of {number:,} examples have "
    + (
      f"more {feature} than {lengths[feature]} tokens and are cut"
      if feature in lengths
      else f"{feature} that are longer than their part of a row and are cut"
    )
    for feature, count in truncated.items()
    if count
  ]


def of_steps(scores: Mapping[int, averages.Scores]) -> list[str]:
  """Returns a line for each task with its score at every step.

  Args:
    scores: The scores by step.
  """
  by_task = {}
  for step in sorted(scores):
    for task, metrics in scores[step].items():
      if averages.has_score(metrics):
        value = averages.task_score(metrics)
        by_task.setdefault(task, []).append(f"{value:.2f} at step {step}")
  lines = [f"  {task}: {', '.join(of)}" for task, of in by_task.items()]
  return ["scores by step", *lines] if lines else []


def as_metrics(scores: Mapping[int, averages.Scores], split: str) -> str:
  """Returns the scores as lines of JSON, of which `zoo watch` draws curves.

  Args:
    scores: The scores by step.
    split: The name of the split.
  """
  lines = [
    {"step": step}
    | {
      f"{split}/{task}/{metric}": value
      for task, metrics in scores[step].items()
      for metric, value in metrics.items()
    }
    for step in sorted(scores)
  ]
  return "".join(json.dumps(line) + "\n" for line in lines)


def of_choice(chosen: Mapping[str, Any]) -> list[str]:
  """Returns the lines about the best of several checkpoints.

  Args:
    chosen: The choice of `averages.choose`.
  """
  lines = []
  if chosen["tasks"]:
    lines.append(f"best per task ({chosen['task_rule']})")
  for name, found in chosen["tasks"].items():
    lines.append(f"  {name}: {found['score']:.2f} at step {found['step']}")
  if chosen["mean_of_best"] is not None:
    lines.append(f"  mean of these: {chosen['mean_of_best']:.2f}")
  if chosen["groups"]:
    lines.append(f"best per group ({chosen['group_rule']})")
  for name, found in chosen["groups"].items():
    lines.append(f"  {name}: {found['average']:.2f} at step {found['step']}")
  return lines


def _of_templates(templates: Mapping[str, Any] | None) -> list[str]:
  sets = templates["sets"] if templates else {}
  if all(found["templates"] < 2 for found in sets.values()):
    return []
  width = max(map(len, sets))
  lines = ["medians over the templates of a set, and quartiles"]
  for name, found in sets.items():
    low, high = found["quartiles"]
    lines.append(
      f"  {name:{width}}  {found['median']:.2f} ({low:.2f} to {high:.2f}) of "
      f"{found['templates']} template{'s' * (found['templates'] > 1)}"
    )
  lines.append(f"mean of {len(sets)} medians: {templates['average']:.2f}")
  return lines


def _scores(result, name):
  return result["scores"].get(name, {}).items()


def _of_submission(submission: Mapping[str, Any] | None) -> list[str]:
  if submission is None:
    return []
  lines = [f"submission files in {submission['folder']}"]
  for file, found in submission["files"].items():
    line = f"  {file}: {found['rows']:,} rows"
    if found["invalid"]:
      line += f", {found['invalid']:,} invalid ({submission['invalid_rule']})"
    lines.append(line)
  for benchmark, files in submission["missing"].items():
    if files:
      lines.append(f"  {benchmark} still needs {', '.join(files)}")
  return lines
