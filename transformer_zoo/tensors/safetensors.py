"""Safetensors files: read by the `safetensors` library, written by tensor.

The library reads and checks files. It writes only what lies in memory as a
whole, so `write` is ours: one tensor is in memory at a time, whatever the size
of a file. Source: https://github.com/huggingface/safetensors, section Format.
"""

from collections.abc import Iterator, Mapping
import functools
import json
import os
import pathlib

import ml_dtypes
import numpy as np
import safetensors

from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import read_ahead
from transformer_zoo.tensors.lazy_tensors import Tensor

DTYPES = {
  "F64": np.dtype(np.float64),
  "F32": np.dtype(np.float32),
  "F16": np.dtype(np.float16),
  "BF16": np.dtype(ml_dtypes.bfloat16),
  "I64": np.dtype(np.int64),
  "I32": np.dtype(np.int32),
  "I16": np.dtype(np.int16),
  "I8": np.dtype(np.int8),
  "U8": np.dtype(np.uint8),
  "BOOL": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_LENGTH_BYTES = 8
_ALIGNMENT = 8
# Of a part of a tensor; the library keeps the pages of a file that it maps
# until the file is closed.
_PART_BYTES = 1 << 24


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens a file: name -> tensor, none of which is read yet.

  Raises:
    UserError: The file is damaged, no safetensors file, or has numbers of a
      type that is not read.
  """
  path = pathlib.Path(path)
  try:
    with safetensors.safe_open(path, framework="numpy") as file:
      slices = {name: file.get_slice(name) for name in file.keys()}
      return {name: _tensor(path, name, s) for name, s in slices.items()}
  except safetensors.SafetensorError as error:
    raise UserError(
      f"{str(path)!r} is no whole safetensors file ({error}); copy it again"
    ) from error


def write(path: str | os.PathLike[str], tensors: Mapping[str, Tensor]) -> None:
  """Writes a file, one tensor after another."""
  header, end = {"__metadata__": {"format": "pt"}}, 0
  for name, tensor in tensors.items():
    begin, end = end, end + tensor.num_bytes
    header[name] = {
      "dtype": _NAMES[tensor.dtype],
      "shape": list(tensor.shape),
      "data_offsets": [begin, end],
    }
  text = json.dumps(header, separators=(",", ":")).encode()
  text += b" " * (-len(text) % _ALIGNMENT)
  with open(path, "wb") as file:
    file.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
    file.write(text)
    for piece in read_ahead(
      piece for tensor in tensors.values() for piece in tensor.pieces()
    ):
      file.write(piece)


def _tensor(path: pathlib.Path, name: str, found) -> Tensor:
  kind, shape = found.get_dtype(), tuple(found.get_shape())
  if kind not in DTYPES:
    raise UserError(
      f"{name} in {str(path)!r} has numbers of the type {kind!r}, which are "
      f"not read here; known: {', '.join(DTYPES)}"
    )
  tensor = Tensor(shape, DTYPES[kind], functools.partial(_read, path, name))
  if tensor.num_bytes <= _PART_BYTES or not shape:
    return tensor
  rows = max(1, _PART_BYTES * shape[0] // tensor.num_bytes)
  parts = functools.partial(_read_parts, path, name, shape[0], rows)
  return Tensor.of_parts(shape, tensor.dtype, parts)


def _read(path: pathlib.Path, name: str) -> np.ndarray:
  with safetensors.safe_open(path, framework="numpy") as file:
    return file.get_tensor(name)


def _read_parts(
  path: pathlib.Path, name: str, num_rows: int, rows: int
) -> Iterator[np.ndarray]:
  for first in range(0, num_rows, rows):
    with safetensors.safe_open(path, framework="numpy") as file:
      part = file.get_slice(name)[first : min(first + rows, num_rows)]
    yield part
    del part
