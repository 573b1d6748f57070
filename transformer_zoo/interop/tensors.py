"""Tensors that are read when they are needed."""

from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
import dataclasses
import math
import os
import pathlib
from typing import TypeVar

import ml_dtypes
import numpy as np

# Of what is copied at a time.
_PIECE_BYTES = 1 << 22
# Of a transposed matrix what is copied at a time: it stays in the cache.
_TILE_ROWS, _TILE_COLUMNS = 512, 64
# One reads while another writes; each holds a tensor.
_FEWEST_THREADS, _MOST_THREADS = 2, 4
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

Item = TypeVar("Item")
Made = TypeVar("Made")


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


def mapped(
  path: pathlib.Path, dtype: np.dtype, shape: tuple[int, ...], offset: int = 0
) -> np.ndarray:
  """An array in a file, mapped as long as anything holds it."""
  if not math.prod(shape):
    return np.zeros(shape, dtype)
  found = np.memmap(path, dtype, mode="r", offset=offset, shape=shape)
  return found.view(np.ndarray)


def pieces(array: np.ndarray) -> Iterator[np.ndarray]:
  """Yields the bytes of an array in C order, however it lies in memory."""
  if not array.ndim:
    array = array.reshape(1)
  rows = max(1, _PIECE_BYTES * len(array) // max(array.nbytes, 1))
  for first in range(0, len(array), rows):
    yield _in_c_order(array[first : first + rows]).reshape(-1).view(np.uint8)


def _in_c_order(array: np.ndarray) -> np.ndarray:
  """The array, or a copy of it that lies in C order.

  A transposed matrix is copied in tiles: up to six times as fast as numpy's own
  copy.
  """
  if array.flags.c_contiguous or array.ndim != 2:
    return np.ascontiguousarray(array)
  copy = np.empty(array.shape, array.dtype)
  for row in range(0, array.shape[0], _TILE_ROWS):
    rows = slice(row, row + _TILE_ROWS)
    for column in range(0, array.shape[1], _TILE_COLUMNS):
      columns = slice(column, column + _TILE_COLUMNS)
      copy[rows, columns] = array[rows, columns]
  return copy


def in_parallel(
  function: Callable[[Item], Made], items: Iterable[Item]
) -> list[Made]:
  """Returns what a function makes of each item, in order, made in threads.

  The first error is raised here.
  """
  threads = max(_FEWEST_THREADS, min(os.cpu_count() or 1, _MOST_THREADS))
  with futures.ThreadPoolExecutor(threads) as pool:
    return list(pool.map(function, items))


def are_equal(a: Tensor, b: Tensor) -> bool:
  """Whether two tensors have the same shape, type and numbers."""
  if (a.shape, a.dtype) != (b.shape, b.dtype):
    return False
  pairs = zip(pieces(a.read()), pieces(b.read()), strict=True)
  return all(np.array_equal(of_a, of_b) for of_a, of_b in pairs)
