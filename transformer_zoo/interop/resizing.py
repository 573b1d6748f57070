"""Tables of a checkpoint with more or fewer rows."""

from collections.abc import Sequence

import numpy as np

from transformer_zoo.interop.tensors import Tensor


def resized(tensor: Tensor, shape: Sequence[int]) -> Tensor:
  """A tensor of which the last numbers along its axes are cut, or new.

  What is new is the mean of what was there, along the axis that grows. The
  logit of a new token is then the mean of all others, so that it is never the
  largest and takes no more than its share of the probability (Hewitt 2021,
  "Initializing new word embeddings for pretrained language models").

  Args:
    tensor: an embedding, the matrix or bias of a softmax, learned positions.
    shape: what it is to have, with as many axes.
  """

  def read():
    array = tensor.read()
    for axis, size in enumerate(shape):
      array = _along(array, axis, size)
    return array

  return Tensor(tuple(shape), tensor.dtype, read)


def _along(array: np.ndarray, axis: int, size: int) -> np.ndarray:
  there = array.shape[axis]
  if size <= there:
    return np.split(array, [size], axis)[0]
  shape = list(array.shape)
  shape[axis] = size
  grown = np.empty(shape, array.dtype)
  old, new = np.split(grown, [there], axis)
  old[...] = array
  # Sums of many rows, and of float16, need more digits than the rows have.
  new[...] = array.mean(axis, dtype=np.float64, keepdims=True)
  return grown
