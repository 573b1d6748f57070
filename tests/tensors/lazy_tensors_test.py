"""Tensors that are read on demand, in pieces and ahead."""

import itertools
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from transformer_zoo.tensors import lazy_tensors
from transformer_zoo.tensors.lazy_tensors import Tensor


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (50, 3), (5, 4, 3)])
def test_pieces_are_the_bytes_in_order(monkeypatch, shape, turned):
  monkeypatch.setattr(lazy_tensors, "_PIECE_BYTES", 24)
  array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
  array = array.T if turned else array
  found = list(lazy_tensors.pieces(array))
  assert b"".join(piece.tobytes() for piece in found) == array.tobytes()
  if array.ndim:
    row_bytes = array.nbytes // max(len(array), 1)
    assert all(len(piece) <= max(24, row_bytes) for piece in found)


def test_narrow_numbers_are_widened_when_they_are_read():
  narrow = np.array([1.5, -3.0], ml_dtypes.bfloat16)
  wide = Tensor.of(narrow).astype(np.dtype(np.float32))
  assert wide.read().dtype == wide.dtype == np.float32
  np.testing.assert_array_equal(wide.read(), [1.5, -3.0])
  assert (Tensor.of(narrow).num_bytes, wide.num_bytes) == (4, 8)


def test_a_tensor_is_widened_piece_by_piece(monkeypatch):
  """A table of mT5 XXL has 4 GB."""
  monkeypatch.setattr(lazy_tensors, "_PIECE_BYTES", 1 << 12)
  narrow = np.arange(1 << 18, dtype=np.float16).reshape(-1, 64).T
  wide = Tensor.of(narrow).astype(np.dtype(np.float32))
  tracemalloc.start()
  for piece in wide.pieces():
    assert piece.nbytes <= 1 << 14  # A row.
  _, most = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert most < wide.num_bytes / 4
  whole = b"".join(piece.tobytes() for piece in wide.pieces())
  assert whole == narrow.astype(np.float32).tobytes()


@pytest.fixture(name="source", params=["in_order", "turned"])
def make_a_mapped_array(request, tmp_path, monkeypatch):
  """Of 12 rows, three of which are read at a time."""
  monkeypatch.setattr(lazy_tensors, "_PIECE_BYTES", 64)
  array = np.arange(60, dtype=np.float32).reshape(12, 5)
  (tmp_path / "file").write_bytes(array.tobytes())
  mapped = lazy_tensors.mapped(tmp_path / "file", array.dtype, array.shape)
  np.testing.assert_array_equal(mapped, array)
  return mapped if request.param == "in_order" else mapped.T


@pytest.fixture(name="forgotten")
def count_what_is_forgotten(monkeypatch):
  forgotten, forget = [], lazy_tensors._forget
  monkeypatch.setattr(
    lazy_tensors, "_forget", lambda array: forgotten.append(forget(array))
  )
  return forgotten


def test_what_is_copied_of_a_file_does_not_stay(source, forgotten):
  copied = np.empty_like(source)
  lazy_tensors.copy(source, copied)
  assert len(forgotten) == 4
  # It is there again, for whoever reads it again.
  np.testing.assert_array_equal(source, copied)


def test_what_is_read_of_a_file_in_its_order_does_not_stay(source, forgotten):
  """Two tables of mT5 XXL that are compared have 8 GB."""
  read = b"".join(piece.tobytes() for piece in lazy_tensors.pieces(source))
  assert read == source.tobytes()
  assert len(forgotten) == (4 if source.flags.c_contiguous else 0)


def test_integers_are_no_parameters():
  with pytest.raises(TypeError, match="int32 is no type of parameters"):
    Tensor.of(np.zeros(2, np.int32)).astype(np.dtype(np.float32))


def test_tensors_are_equal_in_contents_and_shape():
  array = np.arange(6, dtype=np.float32).reshape(2, 3)
  tensor = Tensor.of(array)
  assert lazy_tensors.are_equal(tensor, Tensor.of(np.asfortranarray(array)))
  others = [array + 1, array.reshape(3, 2), array.astype(np.int32)]
  assert not any(lazy_tensors.are_equal(tensor, Tensor.of(a)) for a in others)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_the_same_numbers_in_another_type_are_equal(dtype):
  narrow = Tensor.of(np.array([1.5, -3.0], np.float32))
  assert lazy_tensors.are_equal(narrow, Tensor.of(np.array([1.5, -3.0], dtype)))
  assert not lazy_tensors.are_equal(
    narrow, Tensor.of(np.array([1.5, -3.5], dtype))
  )
  # 0.1 is another number in each.
  tenth = Tensor.of(np.array([0.1], np.float32))
  assert not lazy_tensors.are_equal(tenth, Tensor.of(np.array([0.1], dtype)))


def test_reading_ahead_keeps_the_order():
  assert list(lazy_tensors.read_ahead(iter(range(20)))) == list(range(20))


def test_an_error_comes_after_what_was_read_before_it():
  def items():
    yield 1
    raise OSError("gone")

  ahead = lazy_tensors.read_ahead(items())
  assert next(ahead) == 1
  with pytest.raises(OSError, match="gone"):
    next(ahead)


def test_reading_ahead_stops_when_no_more_is_wanted():
  asked = []
  endless = (asked.append(i) or i for i in itertools.count())
  ahead = lazy_tensors.read_ahead(endless)
  assert next(ahead) == 0
  ahead.close()
  # Two wait, one is on its way to them.
  assert len(asked) <= 4
