"""Checkpoints of our own runs: read on demand, written one after another.

What is written is Orbax's format with an uncompressed zarr array in a folder of
its own for each leaf, so that it is written and read at the speed of the disk;
Orbax by itself packs all leaves into one compressed database. Its restore reads
both. Source: `orbax.checkpoint`, the files `_METADATA` and `_sharding`.
"""

from collections.abc import Mapping
import json
import math
import os
import pathlib
from typing import Any

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop import layers
from transformer_zoo.interop.tensors import pieces
from transformer_zoo.interop.tensors import Tensor

STATE = "state"
PARAMETERS = "params/"
_METADATA = "_METADATA"
_COMMITTED = "commit_success.txt"
# Several processes that restore a large array each read chunks of it.
_CHUNK_BYTES = 1 << 28
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_DICTIONARY_KEY, _SEQUENCE_KEY = 2, 1


def open_checkpoint(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens the state of one step: name of a leaf -> tensor.

  Layers are unstacked where the model scans them. Names are paths in the state:
  'params/decoder/layers_0/mlp/wi/kernel', 'step', 'opt_state/...'.

  Args:
    path: the folder of a step.

  Raises:
    UserError: the folder holds no state, or a damaged one.
  """
  folder = pathlib.Path(path).absolute() / STATE
  try:
    metadata = json.loads((folder / _METADATA).read_text(encoding="utf-8"))
    packed = metadata["use_ocdbt"]
    names = [
      "/".join(str(part["key"]) for part in entry["key_metadata"])
      for entry in metadata["tree_metadata"].values()
      if entry["value_metadata"]["value_type"] != "None"
    ]
    found = {}
    for name in names:
      found.update(_unstacked(name, _open(folder, name, packed=packed)))
    return found
  except (OSError, KeyError, TypeError, ValueError) as error:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise UserError(
      f"checkpoint {str(path)!r} is damaged or not of a run ({reason[0][:200]})"
    ) from error


def parameters(leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """The parameters among the leaves of a state, by their names alone."""
  return {
    name.removeprefix(PARAMETERS): leaf
    for name, leaf in leaves.items()
    if name.startswith(PARAMETERS)
  }


def write(path: str | os.PathLike[str], leaves: Mapping[str, Tensor]) -> None:
  """Writes the state of one step, one leaf after another.

  Args:
    path: the folder of the step, which does not exist yet.
    leaves: name -> tensor, named as `open_checkpoint` names them.
  """
  folder = pathlib.Path(path).absolute()
  state = folder / STATE
  state.mkdir(parents=True)
  for name, leaf in leaves.items():
    _write_array(state / name.replace("/", "."), leaf)
  metadata = {
    "tree_metadata": {
      str(tuple(name.split("/"))): _describe(name, leaf)
      for name, leaf in leaves.items()
    },
    "use_ocdbt": False,
    "use_zarr3": False,
    "store_array_data_equal_to_fill_value": True,
    "custom_metadata": None,
  }
  (state / _METADATA).write_text(json.dumps(metadata), encoding="utf-8")
  progress = folder / "progress"
  progress.mkdir()
  (progress / "metadata").write_text("{}", encoding="utf-8")


def _describe(name: str, leaf: Tensor) -> dict[str, Any]:
  return {
    "key_metadata": [
      {
        "key": key,
        "key_type": _SEQUENCE_KEY if key.isdigit() else _DICTIONARY_KEY,
      }
      for key in name.split("/")
    ],
    "value_metadata": {
      "value_type": "jax.Array",
      "skip_deserialize": False,
      "write_shape": list(leaf.shape),
    },
  }


def _open(folder: pathlib.Path, name: str, *, packed: bool) -> Any:
  import tensorstore

  place = name.replace("/", ".")
  if packed:
    store = {"driver": "ocdbt", "base": f"file://{folder}/", "path": place}
  else:
    store = {"driver": "file", "path": str(folder / place)}
  return tensorstore.open(
    {"driver": "zarr", "kvstore": store}, read=True
  ).result()


def _unstacked(name: str, store: Any) -> dict[str, Tensor]:
  dtype = np.dtype(store.dtype.numpy_dtype)
  if not layers.is_stacked(name):
    return {name: Tensor(tuple(store.shape), dtype, _reader(store))}
  return {
    layer: Tensor(tuple(store.shape[1:]), dtype, _reader(store[i]))
    for i, layer in enumerate(layers.names_in(name, store.shape))
  }


def _reader(store: Any):
  return lambda: store.read().result()


def _write_array(folder: pathlib.Path, leaf: Tensor) -> None:
  """Writes an array as files of whole rows, `0.0`, `1.0`, ..."""
  rows = leaf.shape[0] if leaf.shape else 1
  row_bytes = math.prod(leaf.shape[1:]) * leaf.dtype.itemsize
  per_chunk = max(1, min(rows, _CHUNK_BYTES // max(row_bytes, 1)))
  folder.mkdir()
  chunks = (per_chunk, *leaf.shape[1:]) if leaf.shape else ()
  description = {
    "zarr_format": 2,
    "shape": list(leaf.shape),
    "chunks": list(chunks),
    "dtype": leaf.dtype.name if leaf.dtype == _BFLOAT16 else leaf.dtype.str,
    "compressor": None,
    "fill_value": None,
    "filters": None,
    "order": "C",
    "dimension_separator": ".",
  }
  (folder / ".zarray").write_text(json.dumps(description), encoding="utf-8")
  array = leaf.read()
  rest = "".join(".0" for _ in leaf.shape[1:])
  for chunk, first in enumerate(range(0, rows, per_chunk)):
    part = array[first : first + per_chunk] if leaf.shape else array
    with open(folder / f"{chunk}{rest}", "wb") as file:
      for piece in pieces(part):
        file.write(piece.reshape(-1).view(np.uint8))
      # The format's last chunk is as large as the others.
      file.truncate(per_chunk * row_bytes)
