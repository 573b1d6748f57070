"""Tensors that are read when they are needed."""

from collections.abc import Callable, Iterator
import dataclasses
import hashlib
import math
from typing import BinaryIO

import ml_dtypes
import numpy as np

# Of what is copied at a time.
_PIECE_BYTES = 1 << 27
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


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

  @property
  def num_bytes(self) -> int:
    """Bytes of its contents."""
    return math.prod(self.shape) * self.dtype.itemsize

  def astype(self, dtype: np.dtype) -> "Tensor":
    """Returns a tensor of the same numbers in another floating-point type.

    Raises:
      TypeError: its numbers are not floating-point.
    """
    if self.dtype == dtype:
      return self
    if self.dtype != _BFLOAT16 and self.dtype.kind != "f":
      raise TypeError(f"{self.dtype} is no type of parameters")
    return Tensor(self.shape, dtype, lambda: self.read().astype(dtype))


def pieces(array: np.ndarray) -> Iterator[np.ndarray]:
  """Yields an array in C order piece by piece, however it lies in memory."""
  if array.flags.c_contiguous:
    yield array
    return
  rows = max(1, _PIECE_BYTES * len(array) // array.nbytes)
  for first in range(0, len(array), rows):
    yield np.ascontiguousarray(array[first : first + rows])


def write_flat(array: np.ndarray, file: BinaryIO) -> None:
  """Writes the bytes of an array in C order."""
  for piece in pieces(array):
    file.write(piece.reshape(-1).view(np.uint8))


def checksum(tensor: Tensor) -> str:
  """Digest of shape, type and contents."""
  digest = hashlib.sha256(f"{tensor.shape} {tensor.dtype}".encode())
  for piece in pieces(tensor.read()):
    digest.update(piece.reshape(-1).view(np.uint8))
  return digest.hexdigest()
