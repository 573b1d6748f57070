"""Tensors that are read when they are needed."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import math
import mmap
import pathlib
import queue
import threading
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

# The bytes that are copied at a time.
_PIECE_BYTES = 1 << 22
_STRIP_COLUMNS = 16
# The number of pieces that are read ahead.
_AHEAD = 2
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Tensor:
  """A tensor of a checkpoint: known by shape and dtype, read on demand.

  Attributes:
    shape: The shape of the array.
    dtype: The type of its numbers; bfloat16 is `ml_dtypes.bfloat16`.
    load: A function that returns the array, a view of a mapped file where that
      is possible, perhaps of another floating-point type. Nothing keeps the
      array: reading twice reads the file twice.
    load_parts: A function that yields the rows of the array, some at a time;
      None for a tensor that is read as a whole.
  """

  shape: tuple[int, ...]
  dtype: np.dtype
  load: Callable[[], np.ndarray] = dataclasses.field(repr=False)
  load_parts: Callable[[], Iterator[np.ndarray]] | None = dataclasses.field(
    default=None, repr=False
  )

  @classmethod
  def of(cls, array: np.ndarray) -> "Tensor":
    """Returns a tensor of an array in memory."""
    return cls(array.shape, array.dtype, lambda: array)

  @classmethod
  def of_parts(
    cls,
    shape: tuple[int, ...],
    dtype: np.dtype,
    load_parts: Callable[[], Iterator[np.ndarray]],
  ) -> "Tensor":
    """Returns a tensor whose rows come one part after another."""

    def load():
      array, first = np.empty(shape, dtype), 0
      for part in load_parts():
        array[first : first + len(part)] = part
        first += len(part)
        del part  # Before the next is mapped.
      return array

    return cls(shape, dtype, load, load_parts)

  def read(self) -> np.ndarray:
    """Returns the array."""
    return self.load().astype(self.dtype, copy=False)

  def parts(self) -> Iterator[np.ndarray]:
    """Yields its rows in order, perhaps of another floating-point type."""
    return iter([self.load()]) if self.load_parts is None else self.load_parts()

  def pieces(self) -> Iterator[np.ndarray]:
    """Yields its bytes in C order, of which few are in memory at a time."""
    for part in self.parts():
      yield from pieces(part, self.dtype)

  @property
  def num_bytes(self) -> int:
    """Bytes of its contents."""
    return math.prod(self.shape) * self.dtype.itemsize

  @property
  def is_floating(self) -> bool:
    """Whether its numbers are floating-point, as in parameters."""
    return self.dtype == _BFLOAT16 or self.dtype.kind == "f"

  def astype(self, dtype: np.dtype) -> "Tensor":
    """Returns a tensor of the same numbers in another floating-point type.

    Raises:
      TypeError: its numbers are not floating-point.
    """
    if self.dtype == dtype:
      return self
    if not self.is_floating:
      raise TypeError(f"{self.dtype} is no type of parameters")
    return dataclasses.replace(self, dtype=dtype)


def mapped(
  path: pathlib.Path, dtype: np.dtype, shape: tuple[int, ...], offset: int = 0
) -> np.ndarray:
  """An array in a file, mapped as long as anything holds it."""
  if not math.prod(shape):
    return np.zeros(shape, dtype)
  found = np.memmap(path, dtype, mode="r", offset=offset, shape=shape)
  return found.view(np.ndarray)


def pieces(
  array: np.ndarray, dtype: np.dtype | None = None
) -> Iterator[np.ndarray]:
  """Yields the bytes of an array in C order, however it lies in memory.

  Of an array in a file that is mapped no page stays, where it lies in C order.

  Args:
    array: The array.
    dtype: The type to convert its numbers to; unchanged if None.
  """
  dtype = array.dtype if dtype is None else dtype
  if not array.ndim:
    array = array.reshape(1)
  bytes_ = array.size * dtype.itemsize
  rows = max(1, _PIECE_BYTES * len(array) // max(bytes_, 1))
  for first in range(0, len(array), rows):
    piece = _in_c_order(array[first : first + rows]).astype(dtype, copy=False)
    yield piece.reshape(-1).view(np.uint8)
    # Pieces across the rows of a file would read all of it again each time.
    if array.flags.c_contiguous:
      _forget(array)


def copy(source: np.ndarray, target: np.ndarray) -> None:
  """Copies numbers out of a file that may be mapped, of which no page stays.

  Args:
    source: The array, which may be mapped.
    target: An array of the same shape and order in memory.
  """
  if not source.flags.c_contiguous:
    source, target = source.T, target.T
  rows = max(1, _PIECE_BYTES * len(source) // max(source.nbytes, 1))
  for first in range(0, len(source), rows):
    piece = slice(first, first + rows)
    target[piece] = source[piece]
    _forget(source)


def _forget(array: np.ndarray) -> None:
  """Gives back the pages of a mapped file, which are read again on demand."""
  base = array
  while isinstance(base, np.ndarray):
    base = base.base
  if isinstance(base, mmap.mmap):
    base.madvise(mmap.MADV_DONTNEED)


def _in_c_order(array: np.ndarray) -> np.ndarray:
  """The array, or a copy of it that lies in C order.

  A transposed matrix is copied in narrow strips, whose rows stay in the cache:
  three times as fast as numpy's own copy.
  """
  if array.flags.c_contiguous or array.ndim != 2:
    return np.ascontiguousarray(array)
  copy = np.empty(array.shape, array.dtype)
  for first in range(0, array.shape[1], _STRIP_COLUMNS):
    strip = slice(first, first + _STRIP_COLUMNS)
    copy[:, strip] = array[:, strip]
  return copy


def ocdbt_store(folder: pathlib.Path, name: str) -> dict[str, Any]:
  """TensorStore's spec of an array in Orbax's database of all arrays.

  Args:
    folder: The folder of the database.
    name: The name of the array in it.
  """
  # Not as a URL: TensorStore would take `%3A` in a name for a colon.
  base = {"driver": "file", "path": f"{folder}/"}
  return {"driver": "ocdbt", "base": base, "path": name}


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
  """Yields what an iterator yields, which runs ahead in a thread.

  An error in it is raised here; when no more is asked for, the thread ends.
  """
  ready = queue.Queue(maxsize=_AHEAD)
  stopped = threading.Event()

  def put(kind: str, value) -> None:
    while not stopped.is_set():
      with contextlib.suppress(queue.Full):
        return ready.put((kind, value), timeout=0.1)

  def run() -> None:
    try:
      for item in items:
        put("item", item)
        del item  # While the next one is made.
        if stopped.is_set():
          return
      put("end", None)
    except BaseException as error:
      put("error", error)

  thread = threading.Thread(target=run, daemon=True)
  thread.start()
  try:
    while (got := ready.get())[0] == "item":
      yield got[1]
      del got
    if got[0] == "error":
      raise got[1]
  finally:
    stopped.set()
    thread.join()


def are_equal(a: Tensor, b: Tensor) -> bool:
  """Whether two tensors have the same shape and numbers, of any types."""
  if a.shape != b.shape:
    return False
  if a.dtype != b.dtype:
    if not (a.is_floating and b.is_floating):
      return False
    wide = np.promote_types(a.dtype, b.dtype)
    a, b = a.astype(wide), b.astype(wide)
  pairs = zip(_blocks(a.pieces()), _blocks(b.pieces()), strict=True)
  return all(np.array_equal(of_a, of_b) for of_a, of_b in pairs)


def _blocks(pieces_: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
  """Yields the same bytes in blocks of one length, however they were cut."""
  rest = np.empty(0, np.uint8)
  for piece in pieces_:
    rest = np.concatenate([rest, piece])
    while len(rest) >= _PIECE_BYTES:
      yield rest[:_PIECE_BYTES]
      rest = rest[_PIECE_BYTES:]
  yield rest
