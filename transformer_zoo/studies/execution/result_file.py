"""The `result.json` of a finished run: its scores and its best checkpoint."""

from collections.abc import Mapping
import os
import pathlib
import re

from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.execution.run_progress import RESULT_FILE

_CHECKPOINTS_ELSEWHERE = re.compile(
  r"^Checkpointing\.folder = '(.+)'$", re.MULTILINE
)


def read(folder: str | os.PathLike[str]) -> dict:
  """Reads the `result.json` of a run folder.

  Raises:
    UserError: If the file is missing or damaged.
  """
  return json_files.read(pathlib.Path(folder) / RESULT_FILE)


def chosen_scores(result: Mapping) -> dict[str, dict[str, float]]:
  """Returns `{task: {metric: value}}`, each task at its best checkpoint.

  A task without metrics that was evaluated alone has the metrics
  `token_accuracy` and `loss`.

  Args:
    result: The contents of a `result.json`.
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
  """Returns the step of a task's scores; None for the scores of an ensemble."""
  if task in result.get("best_by_task", {}):
    return result["best_by_task"][task]["step"]
  return result.get("best_step") or result.get("step")


def checkpoint_of(folder: pathlib.Path) -> str:
  """Returns the path of a finished run's best checkpoint, else of its last.

  Args:
    folder: The run folder, which contains a `result.json`.
  """
  result = read(folder)
  step = result.get("best_step")
  step = result["step"] if step is None else step
  config = folder / "config.gin"
  elsewhere = config.exists() and _CHECKPOINTS_ELSEWHERE.search(
    config.read_text(encoding="utf-8")
  )
  place = elsewhere.group(1) if elsewhere else folder / "checkpoints"
  return f"{place}/{step}"
