"""The mean of the last checkpoints of a run (Vaswani et al. 2017, section 6.1).

Read as one checkpoint: a tensor is the mean of those of the same name, each
read when the mean is.
"""

from collections.abc import Mapping, Sequence
import os
import pathlib

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import reading


def last_steps(path: str | os.PathLike[str], number: int) -> list[pathlib.Path]:
  """Finds the folders of the last checkpoints of a run, steps ascending.

  Args:
    path: A run folder, or its folder of checkpoints.
    number: The number of checkpoints, 1 or more.

  Raises:
    UserError: The run has fewer, or the path is one checkpoint.
  """
  if number < 1:
    raise UserError(f"--average is {number}; it must be 1 or more checkpoints")
  if (pathlib.Path(path) / "state").is_dir():
    raise UserError(
      f"--average {number} is of the last checkpoints of a run, and "
      f"{str(path)!r} is one checkpoint; name the folder of the run"
    )
  found = list(reading.steps(path).values())
  if len(found) < number:
    raise UserError(
      f"--average {number} needs as many checkpoints, and {str(path)!r} has "
      f"{len(found)}; choose fewer, or train with "
      f"Checkpointing.newest={number}"
    )
  return found[-number:]


def mean(checkpoints: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
  """Returns the mean of tensors of the same names, in float32.

  Args:
    checkpoints: The tensors of each checkpoint by name.

  Raises:
    UserError: A tensor is missing in one of them, or has another shape.
  """
  first, *others = checkpoints
  for other in others:
    if other.keys() != first.keys():
      (*_, name) = sorted(other.keys() ^ first.keys())
      raise UserError(
        f"the checkpoints to be averaged are of different models: {name} is "
        "not in all of them"
      )
    for name, tensor in other.items():
      if tensor.shape != first[name].shape:
        raise UserError(
          f"the checkpoints to be averaged are of different models: {name} is "
          f"{first[name].shape} and {tensor.shape}"
        )
  return {
    name: _mean([checkpoint[name] for checkpoint in checkpoints])
    for name in first
  }


def _mean(tensors: Sequence[Tensor]) -> Tensor:
  def read():
    total = np.zeros(tensors[0].shape, np.float64)
    for tensor in tensors:
      total += tensor.read()
    return (total / len(tensors)).astype(np.float32)

  return Tensor(tensors[0].shape, np.dtype(np.float32), read)
