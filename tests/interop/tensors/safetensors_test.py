"""The safetensors format, by its definition, and files that are damaged."""

import json

import ml_dtypes
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors import safetensors
from transformer_zoo.interop.tensors.lazy_tensors import Tensor

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


def file_of(path, header: dict, contents: bytes):
  text = json.dumps(header).encode()
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


def test_a_tensor_is_read_from_its_offsets(tmp_path):
  header = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}
  contents = np.array([1, 2], np.float32).tobytes()
  found = safetensors.read(file_of(tmp_path / "f", header, contents))
  np.testing.assert_array_equal(found["a"].read(), [2])


@pytest.mark.parametrize(
  ("entry", "reason"),
  [
    ({"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, "ends before a"),
    ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, "other bytes"),
    ({"dtype": "F32", "shape": [2]}, "data_offsets"),
  ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, entry, reason):
  path = file_of(tmp_path / "f", {"a": entry}, bytes(8))
  with pytest.raises(UserError, match="no whole safetensors file") as error:
    safetensors.read(path)
  assert reason in str(error.value)


def test_numbers_of_a_type_that_is_not_read(tmp_path):
  entry = {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}
  path = file_of(tmp_path / "f", {"a": entry}, bytes(8))
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
