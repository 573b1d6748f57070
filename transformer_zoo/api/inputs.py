"""Inputs of models: examples of a task, batches of a run."""

import dataclasses
import html
import os
from typing import Any, TYPE_CHECKING

from transformer_zoo.api import configurations
from transformer_zoo.api.configurations import overrides
from transformer_zoo.api.library_logs import quiet_stderr

if TYPE_CHECKING:
  from transformer_zoo.data.loader.batches import Batches


@dataclasses.dataclass(frozen=True)
class Task:
  """The first examples of a task, as `zoo inspect task` shows them.

  Attributes:
    name: The name of the task.
    examples: The examples, each by feature: `text`, and `ids` of its tokens.
    forms: The forms of an encoder that the task has.
    lengths: The quantiles of each feature's number of tokens.
  """

  name: str
  examples: list[dict[str, dict[str, Any]]]
  forms: list[dict[str, Any]]
  lengths: dict[str, dict[str, Any]]

  def _repr_html_(self) -> str:
    names = [*dict.fromkeys(name for each in self.examples for name in each)]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = "".join(
      "<tr>"
      + "".join(
        f"<td>{html.escape(str(each.get(name, {}).get('text', '')))}</td>"
        for name in names
      )
      + "</tr>"
      for each in self.examples
    )
    return f"<table><tr>{head}</tr>{lines}</table>"


def task(
  name: str,
  *,
  split: str = "train",
  shown: int = 5,
  measured: int = 1000,
  data_dir: str | os.PathLike[str] | None = None,
) -> Task:
  """Reads the first examples of a registered task.

  Args:
    name: The name of the task, or of a form of it as "mini_mrpc:classes".
    split: The name of the split.
    shown: The number of examples.
    measured: The number of examples whose lengths are measured.
    data_dir: The folder of raw data; None for what ZOO_DATA_DIR names.

  Raises:
    UserError: There is no such task or split, or its data cannot be read.
  """
  with quiet_stderr():
    from transformer_zoo.data.prepare import inspection
    from transformer_zoo.data.prepare import preparation
    from transformer_zoo.data.prepare import registration

    given = os.environ.get("ZOO_DATA_DIR") if data_dir is None else data_dir
    registration.register_tasks(os.fspath(given) if given else None)
    found = inspection.inspect_task(
      inspection.registered_task(name),
      split=split,
      lengths={},
      shown=shown,
      measured=measured,
    )
    forms = preparation.find_forms(name)
  return Task(name, found["examples"], forms, found["features"])


def batches(*gin_files: str, **macros: Any) -> "Batches":
  """Opens the batches that a training run reads; data is prepared first.

  Args:
    *gin_files: The gin files of the run, as of `zoo.train`.
    **macros: Values of macros or parameters.

  Returns:
    The batches by step: `batches[0]` is what the first step reads, an array for
    each feature.

  Raises:
    UserError: The configuration or the data cannot be used as it is.
  """
  from transformer_zoo import config
  from transformer_zoo.runs import inputs
  from transformer_zoo.runs import settings

  # Nothing is written there.
  given = configurations.Given(
    gin_files, overrides({"MODEL_DIR": "runs/batches", **macros})
  )
  with config.kept(), configurations.of_initial_checkpoint(given) as found:
    configurations.load(found, given, "train")
    run = settings.Run.of_loaded()
  converter, data = run.examples.converter, run.data
  lengths = inputs.whole_lengths(converter, run.examples.task_feature_lengths)
  mixture = inputs.prepared(
    data.mixture_or_task_name,
    data.prepared_dir,
    form=converter.form,
    required_splits=("train",),
  )
  return run.replace(task_feature_lengths=lengths).open_batches(
    data.mixture(mixture)
  )
