"""The safetensors format, by its definition, and files that are damaged."""

import json

import ml_dtypes
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import are_equal
from transformer_zoo.tensors.lazy_tensors import Tensor

ARRAYS = {
  "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
  "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
  "half": np.array([1.5, -2.0], np.float16),
  "brain": np.array([[1.5], [-2.0]], ml_dtypes.bfloat16),
  "number": np.array(7, np.int64),
  "empty": np.zeros((0, 4), np.float32),
}


def write(path, arrays):
  safetensors.write(path, {n: Tensor.of(a) for n, a in arrays.items()})
  return path


def file_of(path, header, contents: bytes):
  raw = isinstance(header, bytes)
  text = header if raw else json.dumps(header).encode()
  path.write_bytes(len(text).to_bytes(8, "little") + text + contents)
  return path


def test_what_is_written_is_read(tmp_path):
  found = safetensors.read(write(tmp_path / "f", ARRAYS))
  assert found.keys() == ARRAYS.keys()
  for name, array in ARRAYS.items():
    assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(found[name].read(), array)


def test_the_bytes_of_a_file(tmp_path):
  """As the definition of the format has them."""
  path = write(tmp_path / "f", {"a": np.array([[1, 2]], np.int16)})
  content = path.read_bytes()
  length = int.from_bytes(content[:8], "little")
  assert length % 8 == 0
  assert json.loads(content[8 : 8 + length]) == {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "I16", "shape": [1, 2], "data_offsets": [0, 4]},
  }
  assert content[8 + length :] == b"\x01\0\x02\0"


def entry(first, last, **changes):
  of_floats = [(last - first) // 4]
  offsets = [first, last]
  return {"dtype": "F32", "shape": of_floats, "data_offsets": offsets} | changes


def test_tensors_are_read_from_their_offsets(tmp_path):
  header = {"b": entry(4, 8), "a": entry(0, 4)}
  contents = np.array([1, 2], np.float32).tobytes()
  found = safetensors.read(file_of(tmp_path / "f", header, contents))
  np.testing.assert_array_equal(found["a"].read(), [1])
  np.testing.assert_array_equal(found["b"].read(), [2])


def test_a_large_tensor_is_read_in_parts(tmp_path, monkeypatch):
  monkeypatch.setattr(safetensors, "_PART_BYTES", 12)  # A row has 20.
  arrays = {"a": np.arange(35, dtype=np.float32).reshape(7, 5)}
  found = safetensors.read(write(tmp_path / "f", arrays))["a"]
  assert [len(part) for part in found.parts()] == [1] * 7
  monkeypatch.setattr(safetensors, "_PART_BYTES", 40)
  found = safetensors.read(tmp_path / "f")["a"]
  assert [len(part) for part in found.parts()] == [2, 2, 2, 1]
  np.testing.assert_array_equal(found.read(), arrays["a"])
  pieces = b"".join(piece.tobytes() for piece in found.pieces())
  assert pieces == arrays["a"].tobytes()
  assert are_equal(found, Tensor.of(arrays["a"].astype(np.float64)))


NESTED = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
  "header",
  [
    {"a": entry(0, 12)},
    {"a": entry(0, 4)},
    {"a": entry(4, 8)},
    {"a": entry(0, 8), "b": entry(4, 8)},
    {"a": entry(0, 8, shape=[3])},
    {"a": entry(0, 8, shape=[2.0])},
    {"a": entry(0, 8, shape=[-2])},
    {"a": entry(0, 8, shape=[True, 2])},
    {"a": entry(0, 8, shape=[10**30])},
    {"a": entry(0, 8, shape=[2**62, 4])},
    {"a": entry(0, 8, data_offsets=["0", 8])},
    {"a": entry(0, 8, data_offsets=[0])},
    {"a": entry(0, 8, dtype=3)},
    {"a": entry(0, 8, dtype="float32")},
    {"a": {"dtype": "F32", "shape": [2]}},
    {"a": [0, 8]},
    {"a": entry(0, 8), "__metadata__": {"format": 1}},
    [1],
    NESTED,
    b"{",
    b"",
  ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, header):
  path = file_of(tmp_path / "f", header, bytes(8))
  with pytest.raises(UserError) as error:
    safetensors.read(path)
  assert str(error.value).startswith(
    f"{str(path)!r} is no whole safetensors file ("
  )
  assert str(error.value).endswith("); copy it again")


def test_numbers_of_a_type_that_is_not_read(tmp_path):
  header = {"a": entry(0, 8, dtype="F8_E4M3", shape=[8])}
  path = file_of(tmp_path / "f", header, bytes(8))
  with pytest.raises(UserError) as error:
    safetensors.read(path)
  assert str(error.value) == (
    f"a in {str(path)!r} has numbers of the type 'F8_E4M3', which are not read "
    "here; known: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL"
  )


@pytest.mark.parametrize("kept", [0, 5, 40, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path, kept):
  path = write(tmp_path / "f", {"a": np.zeros(100, np.float32)})
  path.write_bytes(path.read_bytes()[:kept])
  with pytest.raises(UserError, match="no whole safetensors file"):
    safetensors.read(path)
