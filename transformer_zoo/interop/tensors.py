"""Tensors that are read when they are needed."""

from collections.abc import Callable
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Tensor:
  """A tensor of a checkpoint: known by shape and dtype, read on demand.

  Attributes:
    shape: of the array.
    dtype: of the array; bfloat16 is `ml_dtypes.bfloat16`.
    read: returns the array, a view of a mapped file where that is possible.
      Nothing keeps it: whoever reads twice reads the file twice.
  """

  shape: tuple[int, ...]
  dtype: np.dtype
  read: Callable[[], np.ndarray] = dataclasses.field(repr=False)

  @classmethod
  def of(cls, array: np.ndarray) -> "Tensor":
    """Returns a tensor that is in memory already."""
    return cls(array.shape, array.dtype, lambda: array)
