"""The safetensors format: a JSON header, then the bytes of the tensors.

Ours, because tensors are read and written one by one here, so that neither a
shard nor a mapping of all of it counts as memory. Source:
https://github.com/huggingface/safetensors, section Format.
"""

from collections.abc import Mapping
import json
import math
import os
import pathlib

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors.lazy_tensors import mapped
from transformer_zoo.interop.tensors.lazy_tensors import read_ahead
from transformer_zoo.interop.tensors.lazy_tensors import Tensor

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
# The format's own limit.
_LONGEST_HEADER = 100_000_000
_ALIGNMENT = 8


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens a file: name -> tensor, none of which is read yet.

  Raises:
    UserError: the file is cut off, or no safetensors file, or has numbers of a
      type that is not read.
  """
  path = pathlib.Path(path)
  try:
    header, start = _header(path)
    end = path.stat().st_size - start
    return {
      name: _tensor(path, start, end, name, entry)
      for name, entry in header.items()
      if name != "__metadata__"
    }
  except UserError:
    raise
  except (KeyError, TypeError, ValueError) as error:
    reason = str(error) or type(error).__name__
    raise UserError(
      f"{str(path)!r} is no whole safetensors file ({reason}); copy it again"
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


def _header(path: pathlib.Path) -> tuple[dict, int]:
  """Returns the header and where the contents begin."""
  with open(path, "rb") as file:
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if not 2 <= length <= _LONGEST_HEADER:
      raise ValueError("its header cannot be")
    text = file.read(length)
  if len(text) < length:
    raise ValueError("it ends inside of its header")
  header = json.loads(text)
  if not isinstance(header, dict):
    raise ValueError("its header is no table")
  return header, _LENGTH_BYTES + length


def _tensor(path, start, end, name, entry) -> Tensor:
  if entry["dtype"] not in DTYPES:
    raise UserError(
      f"{name} in {str(path)!r} has numbers of the type {entry['dtype']!r}, "
      f"which are not read here; known: {', '.join(DTYPES)}"
    )
  dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
  first, last = entry["data_offsets"]
  if last - first != math.prod(shape) * dtype.itemsize:
    raise ValueError(f"{name} has other bytes than its shape needs")
  if not 0 <= first <= last <= end:
    raise ValueError(f"it ends before {name} does")

  return Tensor(
    shape, dtype, lambda: mapped(path, dtype, shape, offset=start + first)
  )
