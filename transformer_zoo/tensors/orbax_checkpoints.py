"""Checkpoints of our own runs: read on demand, written one after another.

What is written is Orbax's format with an uncompressed zarr array in a folder of
its own for each leaf, so that it is written and read at the speed of the disk;
Orbax by itself packs all leaves into one compressed database. Its restore reads
both. Source: `orbax.checkpoint`, the files `_METADATA` and `.zarray`.
"""

from collections.abc import Iterable, Iterator, Mapping
import functools
import itertools
import json
import math
import os
import pathlib
from typing import Any
import zlib

import ml_dtypes
import numpy as np

from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import mapped
from transformer_zoo.tensors.lazy_tensors import ocdbt_store
from transformer_zoo.tensors.lazy_tensors import pieces
from transformer_zoo.tensors.lazy_tensors import read_ahead
from transformer_zoo.tensors.lazy_tensors import Tensor

STATE = "state"
PARAMETERS, MOMENTS = "params/", "opt_state/moments/"
_METADATA = "_METADATA"
# The types that Orbax notes for places in the tree without numbers.
_EMPTY = ("None", "Dict", "List", "NamedTuple", "Tuple")
# Several processes that restore a large array each read chunks of it.
_CHUNK_BYTES = 1 << 28
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_DICTIONARY_KEY, _SEQUENCE_KEY = 2, 1


def open_checkpoint(
  path: str | os.PathLike[str], checksums: Mapping[str, int] | None = None
) -> dict[str, Tensor]:
  """Opens the state of one step: name of a leaf -> tensor.

  Layers are unstacked where the model scans them. Names are paths in the state:
  'params/decoder/layers_0/mlp/wi/kernel', 'step', 'opt_state/...'.

  Args:
    path: The folder of a step.
    checksums: The CRC-32 of files that `write` wrote, by their names relative
      to `path`; they are compared when the files are read.

  Raises:
    UserError: The folder holds no state, or a damaged one.
  """
  folder = pathlib.Path(path).absolute() / STATE
  try:
    metadata = json.loads((folder / _METADATA).read_text(encoding="utf-8"))
    names = [
      "/".join(str(part["key"]) for part in entry["key_metadata"])
      for entry in metadata["tree_metadata"].values()
      if entry["value_metadata"]["value_type"] not in _EMPTY
    ]
    found, last = {}, _LastStack()
    for name in names:
      if metadata["use_ocdbt"] or parameter_names.is_stacked(name):
        store = _open(folder, name, packed=metadata["use_ocdbt"])
        found.update(_unstacked(name, store, last))
      else:
        found[name] = _in_files(folder / _place(name), checksums or {})
    return found
  except (
    AttributeError,
    KeyError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
  ) as error:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise UserError(
      f"checkpoint {str(path)!r} is damaged or not of a run ({reason[0][:200]})"
    ) from error


def is_packed(path: str | os.PathLike[str]) -> bool:
  """Whether Orbax wrote a step by itself, all leaves into one database."""
  return (pathlib.Path(path) / STATE / "manifest.ocdbt").exists()


def parameters(leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """The parameters among the leaves of a state, by their names alone."""
  return _below(PARAMETERS, leaves)


def moments(leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Adafactor's moments among them, named as `T5XCheckpoint.moments` does."""
  return _below(MOMENTS, leaves)


def _below(prefix: str, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
  names = [name for name in leaves if name.startswith(prefix)]
  return {name.removeprefix(prefix): leaves[name] for name in names}


def write(
  path: str | os.PathLike[str], leaves: Mapping[str, Tensor]
) -> dict[str, int]:
  """Writes the state of one step, one leaf after another.

  Args:
    path: The folder of the step, which does not exist yet.
    leaves: The tensors by the names that `open_checkpoint` returns.

  Returns:
    The CRC-32 of the files with the numbers, by their names relative to `path`.
  """
  folder = pathlib.Path(path).absolute()
  state = folder / STATE
  state.mkdir(parents=True)
  for name, leaf in leaves.items():
    _write_description(state / _place(name), leaf)
  contents = read_ahead(
    part for name, leaf in leaves.items() for part in _contents(name, leaf)
  )
  checksums = {
    f"{STATE}/{file}": _write_file(state / file, (piece for _, piece in parts))
    for file, parts in itertools.groupby(contents, key=lambda part: part[0])
  }
  metadata = {
    "tree_metadata": {
      str(tuple(name.split("/"))): _in_tree(name, leaf)
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
  return checksums


def _place(name: str) -> str:
  return name.replace("/", ".")


def _in_tree(name: str, leaf: Tensor) -> dict[str, Any]:
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


def _chunk_shape(leaf: Tensor) -> tuple[int, ...]:
  """Whole rows; () of a number."""
  if not leaf.shape:
    return ()
  row_bytes = math.prod(leaf.shape[1:]) * leaf.dtype.itemsize
  rows = max(1, min(leaf.shape[0], _CHUNK_BYTES // max(row_bytes, 1)))
  return (rows, *leaf.shape[1:])


def _write_description(folder: pathlib.Path, leaf: Tensor) -> None:
  """Makes the folder of an array, without its numbers."""
  description = {
    "zarr_format": 2,
    "shape": list(leaf.shape),
    "chunks": list(_chunk_shape(leaf)),
    "dtype": leaf.dtype.name if leaf.dtype == _BFLOAT16 else leaf.dtype.str,
    "compressor": None,
    "fill_value": None,
    "filters": None,
    "order": "C",
    "dimension_separator": ".",
  }
  folder.mkdir()
  (folder / ".zarray").write_text(json.dumps(description), encoding="utf-8")


def _contents(name: str, leaf: Tensor) -> Iterator[tuple[str, np.ndarray]]:
  """Yields what the files of an array hold: (name of the file, bytes)."""
  array, chunk = leaf.load(), _chunk_shape(leaf)
  if not chunk:
    yield f"{_place(name)}/0", next(pieces(np.asarray(array), leaf.dtype))
    return
  for number, first in enumerate(range(0, len(array), chunk[0])):
    file = f"{_place(name)}/{number}" + ".0" * (len(chunk) - 1)
    part = array[first : first + chunk[0]]
    for piece in pieces(part, leaf.dtype):
      yield file, piece
    if missing := chunk[0] - len(part):  # The last chunk is as large.
      yield file, np.zeros(missing * leaf.num_bytes // len(array), np.uint8)


def _write_file(path: pathlib.Path, parts: Iterable[np.ndarray]) -> int:
  """Writes bytes and returns their CRC-32."""
  checksum = 0
  with open(path, "wb") as file:
    for part in parts:
      file.write(part)
      checksum = zlib.crc32(part, checksum)
  return checksum


def _in_files(folder: pathlib.Path, checksums: Mapping[str, int]) -> Tensor:
  """An array as `_write_description` and `_write_file` leave it."""
  stated = json.loads((folder / ".zarray").read_text(encoding="utf-8"))
  shape, chunk = tuple(stated["shape"]), tuple(stated["chunks"])
  dtype = np.dtype(stated["dtype"])
  if stated["compressor"] or stated["filters"] or chunk[1:] != shape[1:]:
    store = _open(folder.parent, folder.name, packed=False)
    return Tensor(shape, dtype, _reader(store))
  last = ".0" * (len(chunk) - 1)
  rows = range(0, shape[0], chunk[0]) if shape else range(1)
  files = [folder / f"{number}{last}" for number in range(len(rows))]

  if len(files) == 1:
    there = slice(shape[0]) if shape else ...
    return Tensor(
      shape, dtype, lambda: _read_file(files[0], dtype, chunk, checksums)[there]
    )

  def parts():
    for first, file in zip(rows, files, strict=True):
      yield _read_file(file, dtype, chunk, checksums)[: shape[0] - first]

  return Tensor.of_parts(shape, dtype, parts)


def _read_file(file, dtype, chunk, checksums) -> np.ndarray:
  known = checksums.get("/".join(file.parts[-3:]))
  try:
    array = mapped(file, dtype, chunk)
  except (OSError, ValueError) as error:
    raise UserError(f"{str(file)!r} is missing or cut off") from error
  if known is not None:
    found = 0
    for piece in pieces(array):
      found = zlib.crc32(piece, found)
    if found != known:
      raise UserError(f"{str(file)!r} has changed since it was written")
  return array


def _open(folder: pathlib.Path, name: str, *, packed: bool) -> Any:
  import tensorstore

  place = _place(name)
  beside = {"driver": "file", "path": str(folder / place)}
  store = ocdbt_store(folder, place) if packed else beside
  return tensorstore.open(
    {"driver": "zarr", "kvstore": store}, read=True
  ).result()


def _unstacked(name: str, store: Any, last: "_LastStack") -> dict[str, Tensor]:
  dtype = np.dtype(store.dtype.numpy_dtype)
  if not parameter_names.is_stacked(name):
    return {name: Tensor(tuple(store.shape), dtype, _reader(store))}
  apart = store.chunk_layout.read_chunk.shape[0] == 1
  return {
    layer: Tensor(
      tuple(store.shape[1:]),
      dtype,
      _reader(store[i]) if apart else functools.partial(last.read, store, i),
    )
    for i, layer in enumerate(parameter_names.names_in(name, store.shape))
  }


class _LastStack:
  """Keeps the last array of several layers, for the next of them.

  Orbax compresses them together, so that one alone costs as much as all.
  """

  def __init__(self):
    self._kept: tuple[Any, np.ndarray | None] = (None, None)

  def read(self, store: Any, layer: int) -> np.ndarray:
    """Returns a layer of an array."""
    last, array = self._kept  # One look: others may read in threads.
    if last is not store:
      self._kept = array = None, None  # Neither is held while it is read.
      array = store.read().result()
      self._kept = store, array
    return array[layer]


def _reader(store: Any):
  return lambda: store.read().result()
