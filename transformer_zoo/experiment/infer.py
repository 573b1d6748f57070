"""Answers of a checkpoint to texts."""

from collections.abc import Iterator, Mapping, Sequence
import functools

from flax import linen as nn
import gin
import jax
import numpy as np

from transformer_zoo.data import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.generate import generate
from transformer_zoo.errors import UserError
from transformer_zoo.experiment import inputs
from transformer_zoo.experiment import scoring
from transformer_zoo.training import checkpoints
from transformer_zoo.training.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.partitioning import Partitioning


@gin.register
def infer(
  texts: Sequence[str],
  *,
  model: nn.Module,
  checkpoint_path: str,
  task_feature_lengths: Mapping[str, int],
  batch_size: int,
  mixture_or_task_name: str | None = None,
  prepared_dir: str = "runs/prepared",
  vocabulary_path: str | None = None,
  extra_ids: int | None = None,
  partitioning: Partitioning = ONE_COPY_PER_DEVICE,
) -> Iterator[str]:
  """Answers texts.

  Args:
    texts: inputs as the model was trained on, task prefix included.
    model: an architecture.
    checkpoint_path: a run folder, or the folder of one step.
    task_feature_lengths: feature -> tokens; longer inputs are cut.
    batch_size: texts at a time.
    mixture_or_task_name: a prepared one, whose vocabulary is taken.
    prepared_dir: where it lies.
    vocabulary_path: a vocabulary to take instead, of any kind.
    extra_ids: its sentinels, by default as is usual for the kind.
    partitioning: mesh and rules.

  Yields:
    The answer to each text.

  Raises:
    UserError: the configuration cannot be used as it is.
  """
  if vocabulary_path is not None:
    vocabulary = Vocabulary(vocabulary_path, extra_ids)
  elif mixture_or_task_name is not None:
    mixture = manifest.load(mixture_or_task_name, prepared_dir)
    vocabulary = mixture.tasks[0].vocabulary
  else:
    raise UserError(
      "no vocabulary: name its file with --vocabulary, or the task that the "
      "model was trained on with --gin.MIXTURE_OR_TASK_NAME=..."
    )
  inputs.check_vocabulary(model, vocabulary, repr(vocabulary.path))
  checkpoint = checkpoints.resolve(checkpoint_path)
  mesh = partitioning.mesh()
  length = task_feature_lengths["inputs"]
  with partitioning.activate(mesh):
    params = scoring.restore(model, partitioning, mesh, batch_size, checkpoint)
    decode = jax.jit(
      functools.partial(
        generate, model, max_length=task_feature_lengths["targets"]
      )
    )
    for start in range(0, len(texts), batch_size):
      some = texts[start : start + batch_size]
      ids_BM = np.zeros((batch_size, length), np.int32)
      for row, text in enumerate(some):
        ids = [*vocabulary.encode(text)[: length - 1], vocabulary.eos_id]
        ids_BM[row, : len(ids)] = ids
      outputs_BL = np.asarray(decode(params, ids_BM).tokens[:, 0])
      for ids in outputs_BL[: len(some)].tolist():
        yield vocabulary.decode(ids)
