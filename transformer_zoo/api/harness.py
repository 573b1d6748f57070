"""Scores of a checkpoint by the benchmarks that others maintain.

`lm_eval` scores models that write text, `mteb` the vectors of an encoder.
"""

from collections.abc import Sequence
import importlib
import json
import os
import pathlib
from typing import Any

from transformer_zoo.api.loading import load
from transformer_zoo.api.model import Model
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError

# The package that each module of ours adapts to, and the extra that has it.
_ADAPTERS = {
  "lm_eval": ("lm_eval_model", "harness"),
  "mteb": ("mteb_encoder", "embeddings"),
}


def harness(
  model: str | os.PathLike[str] | Model,
  tasks: str | Sequence[Any],
  *,
  harness_tasks: str | os.PathLike[str] | None = None,
  num_fewshot: int | None = None,
  output_dir: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
  """Scores a checkpoint as `zoo evaluate --harness` does.

  Args:
    model: The path of a checkpoint, or what `zoo.load` opened.
    tasks: The name of a task or several, of `lm_eval` for a model that writes
      and of `mteb` for an encoder; tasks of one's own for `mteb`.
    harness_tasks: A folder of further tasks for `lm_eval`; None for none.
    num_fewshot: The number of examples before each question of `lm_eval`; None
      for the tasks' own.
    output_dir: The folder of `result.json`; None for
      `evaluation/lm_eval/TASKS` or `evaluation/mteb/TASKS` in the run folder.

  Returns:
    What the command prints: `checkpoint`, `scores` by task and metric, and
    others by name.

  Raises:
    UserError: The package is not installed, or there is no such task.
  """
  model = model if isinstance(model, Model) else load(model)
  tasks = [tasks] if isinstance(tasks, str) else [*tasks]
  package = "lm_eval" if model.inference.converter.writes else "mteb"
  adapter = _adapter(package)
  if package == "lm_eval":
    result = adapter.evaluate(
      model.inference,
      tasks,
      include_path=None if harness_tasks is None else os.fspath(harness_tasks),
      num_fewshot=num_fewshot,
    )
  elif harness_tasks is not None or num_fewshot is not None:
    raise UserError(
      "the model is an encoder, whose vectors mteb scores; harness_tasks and "
      "num_fewshot are for models that write, leave them out"
    )
  else:
    result = adapter.evaluate(model, tasks)
  run = run_layout.run_of(model.inference.checkpoint[0])
  folder = pathlib.Path(
    output_dir or run / "evaluation" / package / "+".join(map(_name, tasks))
  )
  run_layout.make_output(folder)
  text = json.dumps(result, indent=2)
  run_layout.replace(folder / run_layout.RESULT, text + "\n")
  return result


def _name(task: Any) -> str:
  return task if isinstance(task, str) else task.metadata.name


def _adapter(package: str) -> Any:
  module, extra = _ADAPTERS[package]
  try:
    return importlib.import_module(f"transformer_zoo.api.{module}")
  except ModuleNotFoundError as error:
    if (error.name or "").startswith("transformer_zoo"):
      raise
    raise UserError(
      f"{error.name!r} is not installed, which --harness needs for such a "
      f"model; install it: pip install 'transformer_zoo[{extra}]'"
    ) from error
