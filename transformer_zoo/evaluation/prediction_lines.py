"""Examples as they are scored, and what is written of each."""

from collections.abc import Mapping, Sequence
import json
from typing import Any

import numpy as np

from transformer_zoo.data.storage import manifest
from transformer_zoo.evaluation import task_scores


def example(
  text: Mapping[str, Any],
  ids: Mapping[str, np.ndarray],
  task: manifest.PreparedTask,
) -> dict[str, Any]:
  """What post-processing gets of an example, as from SeqIO."""
  made = dict(text)
  for feature, some in ids.items():
    # A task over ready-made ids has no texts.
    if f"{feature}_pretokenized" not in made and task.scoring is not None:
      made[f"{feature}_pretokenized"] = task.vocabulary.decode(some.tolist())
    made[feature] = some
  return made


def lines(
  examples: Sequence[Mapping[str, Any]],
  rows: Sequence[Mapping[str, Any]],
  found: task_scores.Answers,
) -> list[dict[str, Any]]:
  """A line for each example (`evaluator.TaskResult.predictions`).

  Args:
    examples: as `example` gives them.
    rows: what was computed of each.
    found: what became of their texts.
  """
  written = []
  for place, (some, row) in enumerate(zip(examples, rows, strict=True)):
    line = {
      "inputs": some.get("inputs_pretokenized", ""),  # may have none
      "targets": some["targets_pretokenized"],
    }
    if found.predictions is not None:
      line["prediction"] = row["prediction"]
      line |= _if_json("answer", found.predictions[place])
    line |= _if_json("target_answer", found.targets[place])
    line["log_likelihood"] = row["log_likelihood"]
    line["target_tokens"] = row["target_tokens"]
    written.append(line)
  return written


def counts(row: Mapping[str, Any]) -> dict[str, Any]:
  """A line of an example whose tokens alone are counted."""
  return {
    "target_answer": row["target_tokens"],
    "answer": row["correct_tokens"],
    **row,
  }


def _if_json(name: str, value: Any) -> dict[str, Any]:
  try:
    json.dumps(value)
  except (TypeError, ValueError):
    return {}
  return {name: value}
