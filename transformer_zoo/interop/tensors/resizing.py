"""Tables of a checkpoint with more or fewer rows."""

from collections.abc import Sequence

import numpy as np

from transformer_zoo.interop.tensors.lazy_tensors import copy
from transformer_zoo.interop.tensors.lazy_tensors import Tensor


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
  if all(n <= there for n, there in zip(shape, tensor.shape, strict=True)):
    cut = tuple(map(slice, shape))
    return Tensor(tuple(shape), tensor.dtype, lambda: tensor.load()[cut])
  return Tensor(tuple(shape), tensor.dtype, lambda: _grown(tensor, shape))


def _grown(tensor: Tensor, shape: Sequence[int]) -> np.ndarray:
  grown, first = None, 0
  for part in tensor.parts():
    if grown is None:
      grown = np.empty_like(part, shape=shape)  # It lies in memory alike.
    part = part[tuple(map(slice, (max(shape[0] - first, 0), *shape[1:])))]
    rows = slice(first, first + len(part))
    copy(part, grown[(rows, *map(slice, part.shape[1:]))])
    first = rows.stop
    del part  # Before the next is mapped.
  for axis, there in enumerate(tensor.shape):
    if shape[axis] > there:
      old, new = np.split(grown, [there], axis)
      # Sums of many rows, and of float16, need more digits than rows have.
      new[...] = old.mean(axis, dtype=np.float64, keepdims=True)
  return grown
