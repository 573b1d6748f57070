"""The mean of the last checkpoints of a run (Vaswani et al. 2017, section 6.1).

Read as one checkpoint: a tensor is the mean of the tensors of its name, each
read when the mean is.
"""

from collections.abc import Mapping, Sequence
import os
import pathlib

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import reading


def last_steps(path: str | os.PathLike[str], number: int) -> list[pathlib.Path]:
  """Finds the folders of the last checkpoints of a run, steps ascending.

  Args:
    path: A run folder, its folder of checkpoints, or one of these, which is
      then the last.
    number: The number of checkpoints, 1 or more.

  Raises:
    UserError: There are fewer.
  """
  if number < 1:
    raise UserError(f"--average is {number}; it must be 1 or more checkpoints")
  last, folder = None, pathlib.Path(path)
  if (folder / "state").is_dir() and folder.name.isdigit():
    last, folder = int(folder.name), folder.parent
  found = [
    place
    for step, place in reading.steps(folder).items()
    if last is None or step <= last
  ]
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
