"""What a finished run hands on: its scores, and a checkpoint to start from."""

from collections.abc import Mapping
import os
import pathlib
import re

from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.execution import standing

RESULT_FILE = standing.RESULT_FILE
_CHECKPOINTS_ELSEWHERE = re.compile(
  r"^Checkpointing\.folder = '(.+)'$", re.MULTILINE
)


def read_result(folder: str | os.PathLike[str]) -> dict:
  """Reads the `result.json` of a run folder.

  Raises:
    UserError: it is missing or damaged.
  """
  return json_files.read(pathlib.Path(folder) / RESULT_FILE)


def chosen_scores(result: Mapping) -> dict[str, dict[str, float]]:
  """Returns `{task: {metric: value}}` of a `result.json`, each task's best.

  A task without metrics that was evaluated by itself has its `token_accuracy`
  and `loss`.
  """
  best = result.get("best_by_task", {})
  of_tokens = {
    name: {"token_accuracy": value, "loss": result["loss"][name]}
    for name, value in result.get("token_accuracy", {}).items()
  }
  return of_tokens | {
    task: dict(best[task]["scores"] if task in best else metrics)
    for task, metrics in result["scores"].items()
  }


def chosen_step(result: Mapping, task: str) -> int | None:
  """Returns the step of a task's scores; None where they are an ensemble's."""
  if task in result.get("best_by_task", {}):
    return result["best_by_task"][task]["step"]
  return result.get("best_step") or result.get("step")


def checkpoint_of(folder: pathlib.Path) -> str:
  """Returns what a finished run hands on: its best checkpoint, else its last.

  Args:
    folder: the run folder, with a `result.json`.
  """
  result = read_result(folder)
  step = result.get("best_step")
  step = result["step"] if step is None else step
  config = folder / "config.gin"
  elsewhere = config.exists() and _CHECKPOINTS_ELSEWHERE.search(
    config.read_text(encoding="utf-8")
  )
  place = elsewhere.group(1) if elsewhere else folder / "checkpoints"
  return f"{place}/{step}"
