"""An encoder's vectors as a model of the embedding benchmark MTEB.

`pip install 'transformer_zoo[embeddings]'` installs `mteb` (Muennighoff et al.
2023, https://github.com/embeddings-benchmark/mteb):

    import mteb
    import transformer_zoo as zoo
    from transformer_zoo.api.mteb_encoder import Encoder

    encoder = Encoder(zoo.load("runs/first"))
    mteb.evaluate(encoder, mteb.get_tasks(tasks=["STSBenchmark"]))
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TYPE_CHECKING

import mteb
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta
import numpy as np

from transformer_zoo.api import configurations
from transformer_zoo.api.model import Model
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  from mteb.abstasks.task_metadata import TaskMetadata
  from mteb.types import PromptType


class Encoder(AbsEncoder):
  """Gives the vectors of `Model.embed`, which tasks compare by the cosine.

  Of the prompts of a directory of sentence-transformers, MTEB chooses by the
  names of the task and of the kind of text, as "query".
  """

  def __init__(self, model: Model, **embedding: Any):
    """Wraps a model that `zoo.load` opened.

    Args:
      model: The model.
      **embedding: Arguments of `Model.embed`, as `pool="mean"`.

    Raises:
      UserError: The model has no vectors of texts.
    """
    self.model = model
    self._embedding = embedding
    folder = str(model.inference.checkpoint[0])
    self.model_prompts = configurations.prompts_beside(folder).get("prompts")
    self.mteb_model_meta = ModelMeta.create_empty(
      overwrites={"name": f"transformer_zoo/{_name(model)}"}
    )

  def encode(
    self,
    inputs: Iterable[Mapping[str, Sequence[str]]],
    *,
    task_metadata: "TaskMetadata",
    hf_split: str,
    hf_subset: str,
    prompt_type: "PromptType | None" = None,
    **options: Any,
  ) -> np.ndarray:
    """Returns vectors of texts, float32 [texts, D].

    Args:
      inputs: Batches with a list of `text` each.
      task_metadata: The task, whose name may choose a prompt.
      hf_split: The name of its split.
      hf_subset: The name of its part.
      prompt_type: Whether the texts are queries or documents.
      **options: Options of models of other kinds.
    """
    del hf_split, hf_subset, options
    texts = [text for batch in inputs for text in batch["text"]]
    prompt = {}
    if self.model_prompts:
      prompt["prompt"] = self.get_prompt_name(task_metadata, prompt_type)
    return self.model.embed(texts, **prompt | self._embedding)


def _name(model: Model) -> str:
  paths = [model.path] if isinstance(model.path, str) else [*model.path]
  return "+".join(path.rstrip("/").rpartition("/")[2] for path in paths)


def evaluate(model: Model, tasks: Sequence[Any]) -> dict[str, Any]:
  """Scores the vectors of a model on tasks of MTEB.

  Args:
    model: The model.
    tasks: The names of tasks, or tasks of one's own.

  Returns:
    `checkpoint`, `split`, which is "mteb", and `scores` by task: the main
    score, in percent, as `main_score`, and each number that a task reports of
    its first split.

  Raises:
    UserError: There is no such task.
  """
  found = []
  for task in tasks:
    try:
      found += mteb.get_tasks(tasks=[task]) if isinstance(task, str) else [task]
    except KeyError as error:
      raise UserError(
        f"mteb has no task {task!r}; `mteb available-tasks` lists them"
      ) from error
  results = mteb.evaluate(Encoder(model), found, cache=None, co2_tracker=False)
  return {
    "checkpoint": model.path,
    "split": "mteb",
    "scores": {
      each.task_name: _of_task(each.scores) for each in results.task_results
    },
  }


def _of_task(scores: Mapping[str, Sequence[Mapping[str, Any]]]):
  """Means over subsets of the numbers of the first split."""
  parts = next(iter(scores.values()))
  numbers = {
    name: value
    for name, value in parts[0].items()
    if isinstance(value, int | float)
  }
  return {
    name: float(np.mean([part[name] for part in parts])) for name in numbers
  }
