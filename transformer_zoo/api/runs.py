"""Training, evaluation and answers as gin files say, in Python."""

from collections.abc import Sequence
import dataclasses
import json
import os
import pathlib
from typing import Any

from transformer_zoo.api import configurations
from transformer_zoo.api.configurations import overrides
from transformer_zoo.api.loading import load
from transformer_zoo.api.model import Model
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """A run that has finished.

  Attributes:
    folder: The folder of the run.
    result: What its result.json says.
  """

  folder: pathlib.Path
  result: dict[str, Any]

  @property
  def scores(self) -> dict[str, dict[str, float]]:
    """The metrics of each task on the validation split, by the task."""
    return self.result["scores"]

  def load(self, **options: Any) -> Model:
    """Opens the run's best checkpoint, else its last; see `zoo.load`."""
    return load(self.folder, **options)


def train(*gin_files: str, **macros: Any) -> FinishedRun:
  """Trains as `zoo train` does; started again, it goes on where it was.

  Args:
    *gin_files: The gin files, in order, as "runs/miniature_pretrain.gin".
    **macros: Values of macros or parameters, as `MODEL_DIR="runs/first"`,
      `TRAIN_STEPS=1000` or `**{"Dropout.rate": 0.0}`.

  Raises:
    UserError: The configuration or the data cannot be used as it is.
  """
  from transformer_zoo import config

  if not gin_files:
    raise UserError(
      "no configuration: name gin files, as in "
      'zoo.train("runs/miniature_pretrain.gin", MODEL_DIR="runs/first")'
    )
  given = configurations.Given(gin_files, overrides(macros))
  with config.kept(), configurations.of_initial_checkpoint(given) as found:
    configurations.load(found, given, "train")
    if classes := configurations.classes_of_the_task(given.overrides):
      found = dataclasses.replace(found, overrides=classes)
      configurations.load(found, given, "train")
    path = pathlib.Path(config.call("train"))
  return FinishedRun(path.parent, json.loads(path.read_text("utf-8")))


def evaluate(
  model: str | os.PathLike[str] | Model,
  mixture: str,
  *gin_files: str,
  split: str = "validation",
  **macros: Any,
) -> dict[str, Any]:
  """Evaluates a checkpoint as `zoo evaluate` does.

  Args:
    model: The path of a checkpoint, or what `zoo.load` opened.
    mixture: The name of a mixture or task.
    *gin_files: Gin files as `zoo evaluate --gin_file` takes them.
    split: The name of the split.
    **macros: Values of macros or parameters, as `BATCH_SIZE=32`.

  Returns:
    What the command prints: `scores`, `loss`, `checkpoint` and others by name.

  Raises:
    UserError: There is no such checkpoint, data or split.
  """
  from transformer_zoo import config
  from transformer_zoo.checkpoints import generation_config

  path = model.path if isinstance(model, Model) else model
  paths = configurations.listed(path)
  given = configurations.Given(gin_files, overrides(macros))
  found = configurations.of_checkpoint(paths[0], "evaluate", given)
  found = dataclasses.replace(
    found,
    overrides=[
      *found.overrides,
      configurations.binding(paths),
      *generation_config.instead(given.overrides),
      f"MIXTURE_OR_TASK_NAME={mixture!r}",
      f"evaluate.split={split!r}",
    ],
  )
  with config.kept():
    configurations.load(found, given, "evaluate")
    return json.loads(config.call("evaluate"))


def infer(
  path: str | os.PathLike[str], texts: str | Sequence[str], **options: Any
) -> str | list[str]:
  """Writes an answer to each text with a checkpoint.

  To ask it again, keep the model: `zoo.load(path).generate(texts)`.

  Args:
    path: The path of a checkpoint.
    texts: A text or several.
    **options: Options of the search; see `Model.generate`.
  """
  return load(path).generate(texts, **options)
