"""Evaluation of a checkpoint."""

from collections.abc import Callable, Mapping
import json
import pathlib

from flax import linen as nn
import gin

from transformer_zoo.evaluation import averages
from transformer_zoo.experiment import inputs
from transformer_zoo.experiment import run_folder
from transformer_zoo.experiment import scoring
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training import checkpoints
from transformer_zoo.training.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.partitioning import Partitioning


@gin.register
def evaluate(
  *,
  model: nn.Module,
  checkpoint_path: str,
  mixture_or_task_name: str,
  task_feature_lengths: Mapping[str, int],
  batch_size: int,
  objective: Callable = sequence_to_sequence,
  partitioning: Partitioning = ONE_COPY_PER_DEVICE,
  prepared_dir: str = "runs/prepared",
  split: str = "validation",
  max_examples: int | None = None,
  output_dir: str | None = None,
) -> str:
  """Scores a checkpoint on a split of every task of a mixture.

  Args:
    model: an architecture.
    checkpoint_path: a run folder, or the folder of one step.
    mixture_or_task_name: what to evaluate on.
    task_feature_lengths: feature -> tokens.
    batch_size: examples a batch.
    objective: gives the teacher-forced loss.
    partitioning: mesh and rules.
    prepared_dir: where prepared data lies or is put.
    split: which split.
    max_examples: the most examples of a split.
    output_dir: where predictions are written, if anywhere.

  Returns:
    The scores as JSON text.

  Raises:
    UserError: the configuration or the data cannot be used as it is.
  """
  checkpoint = checkpoints.resolve(checkpoint_path)
  mesh = partitioning.mesh()
  mixture = inputs.prepared(mixture_or_task_name, prepared_dir)
  inputs.check_mixture(model, mixture)
  with partitioning.activate(mesh):
    evaluator = scoring.make_evaluator(
      model, objective, mesh, task_feature_lengths, batch_size, max_examples
    )
    for task in mixture.tasks:
      evaluator.check(task, split)
    params = scoring.restore(model, partitioning, mesh, batch_size, checkpoint)
    results = {
      task.name: evaluator(params, task, split) for task in mixture.tasks
    }
  if output_dir:
    for name, result in results.items():
      path = pathlib.Path(output_dir) / f"{name}.jsonl"
      run_folder.write_predictions(path, result)
  scores = {
    name: result.scores for name, result in results.items() if result.scores
  }
  return json.dumps(
    {
      "checkpoint": str(checkpoint),
      "split": split,
      "scores": scores,
      "average": averages.average(scores),
      "loss": {name: result.loss for name, result in results.items()},
    },
    indent=2,
  )
