"""The files of a T5X checkpoint: a msgpack index and TensorStore arrays.

A checkpoint is a folder `checkpoint_<step>` with a file `checkpoint`, Flax's
msgpack of {version, optimizer: {target, state}}. Small values stand in it; in
place of an array stands the TensorStore spec of a zarr folder beside it, whose
path is relative and named by the path in the tree, joined by dots (T5X
`checkpoints.py`). Names here are those paths, joined by slashes.

T5X's trainer of today leaves the files to Orbax, in `checkpoint_<step>/state`;
these are read too.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
import errno
import itertools
import json
import os
import pathlib
import re
from typing import Any

from flax import serialization
from flax import traverse_util
import ml_dtypes
import msgpack
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import ocdbt_store
from transformer_zoo.tensors.lazy_tensors import Tensor

INDEX = "checkpoint"
ORBAX_INDEX = "_METADATA"
# T5X's since June 2021. Version 2 kept bfloat16 as uint16.
VERSION = 3
CHUNK_BYTES = 64 * 2**20
# TensorStore copies and packs what it is given: all of a table would be twice.
_CHUNKS_AT_ONCE = 4
PLACEHOLDER = "PLACEHOLDER://"
_ROOTS = {"target", "state", "flax_mutables"}

# Where TensorStore finds an array, or the value itself.
Leaf = dict[str, Any] | np.ndarray


def find(path: str | os.PathLike[str]) -> pathlib.Path | None:
  """Finds the index of the checkpoint that a user's path means.

  Args:
    path: a checkpoint's folder, its file `checkpoint`, or a folder of several,
      of which the newest is meant that has an index, as to T5X.

  Returns:
    The file; None where there is no checkpoint of T5X.
  """
  path = pathlib.Path(path).absolute()
  if path.name == INDEX and path.is_file():
    path = path.parent
  steps = {
    int(match[1]): entry
    for entry in path.glob("checkpoint_*")
    if (match := re.fullmatch(r"checkpoint_(\d+)", entry.name))
  }
  folders = [*(steps[step] for step in sorted(steps, reverse=True)), path]
  return next(filter(None, map(_index_in, folders)), None)


def _index_in(folder: pathlib.Path) -> pathlib.Path | None:
  for file in (folder / INDEX, folder / "state" / INDEX):
    if _is_msgpack_map(file):
      return file
  file = folder / "state" / ORBAX_INDEX
  if file.is_file():
    roots = {name[0] for name in _orbax_names(file)}
    if "target" in roots and roots <= _ROOTS:
      return file
  return None


def _is_msgpack_map(file: pathlib.Path) -> bool:
  """Tells T5X's index from TensorFlow's, a text file of the same name."""
  if not file.is_file():
    return False
  with file.open("rb") as opened:
    first = opened.read(1)
  return bool(first) and (0x80 <= first[0] <= 0x8F or first[0] in (0xDE, 0xDF))


def read(file: pathlib.Path) -> dict[str, Tensor]:
  """Reads an index: all arrays and numbers by their names.

  Args:
    file: The path of an index, as `find` returns it.

  Raises:
    UserError: it is damaged, of another version, or names arrays that are not
      there or incomplete.
  """
  leaves = _orbax_leaves if file.name == ORBAX_INDEX else _msgpack_leaves
  return {name: _tensor(name, leaf) for name, leaf in leaves(file).items()}


def _msgpack_leaves(file: pathlib.Path) -> dict[str, Leaf]:
  try:
    contents = serialization.msgpack_restore(file.read_bytes())
  except (ValueError, msgpack.UnpackException) as error:
    raise UserError(f"{str(file)!r} is damaged: {error}") from error
  version = contents.get("version", 0)
  if "target" in contents:
    tree = contents
  elif version in (2, VERSION):
    tree = contents.get("optimizer")
  else:
    raise UserError(
      f"{str(file)!r} is a checkpoint of version {version!r}; versions 2 and "
      f"{VERSION} of T5X can be read"
    )
  if not isinstance(tree, dict) or "target" not in tree:
    raise UserError(f"{str(file)!r} is damaged: it has no parameters")
  flat = traverse_util.flatten_dict(
    tree, is_leaf=lambda _, node: "kvstore" in node, sep="/"
  )
  return {
    name: _msgpack_leaf(file, name, leaf)
    for name, leaf in flat.items()
    if leaf is not None
  }


def _msgpack_leaf(file: pathlib.Path, name: str, leaf: Any) -> Leaf:
  if isinstance(leaf, str):
    place = leaf.removeprefix(PLACEHOLDER)
  elif isinstance(leaf, dict):
    # Before 2022 the path stood beside the key-value store.
    store, beside = leaf["kvstore"], leaf.get("path")
    place = store.get("path", beside) if isinstance(store, dict) else None
  else:
    return np.asarray(leaf)
  if not isinstance(place, str):
    raise UserError(
      f"{str(file)!r} is damaged: it does not say where the array {name!r} is"
    )
  return {"driver": "file", "path": str(file.parent / place)}


def _orbax_leaves(file: pathlib.Path) -> dict[str, Leaf]:
  folder, leaves = file.parent, {}
  for name in _orbax_names(file):
    place = ".".join(name)
    if (folder / place).is_dir():
      leaf = {"driver": "file", "path": str(folder / place)}
    else:  # All arrays in one database.
      leaf = ocdbt_store(folder, place)
    leaves["/".join(name)] = leaf
  return leaves


def _orbax_names(file: pathlib.Path) -> list[tuple[str, ...]]:
  try:
    leaves = json.loads(file.read_text(encoding="utf-8"))["tree_metadata"]
    return [
      tuple(str(part["key"]) for part in leaf["key_metadata"])
      for leaf in leaves.values()
      if leaf["value_metadata"]["value_type"] != "None"
    ]
  except (
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
  ) as error:
    raise UserError(f"{str(file)!r} is damaged: {error}") from error


def _tensor(name: str, leaf: Leaf) -> Tensor:
  import tensorstore

  if isinstance(leaf, np.ndarray):
    return Tensor.of(leaf)
  try:
    store = tensorstore.open(
      {"driver": "zarr", "kvstore": leaf}, read=True
    ).result()
    stored = store.storage_statistics(query_fully_stored=True).result()
  except ValueError as error:
    raise _damage(name, error) from error
  # Missing chunks are read as zeros, and without a value for them none is left
  # out. Of one number are moments that Adafactor does not use, which are zero.
  if store.fill_value is None and store.size > 1 and not stored.fully_stored:
    raise UserError(
      f"the array {name!r} of the T5X checkpoint is incomplete: files are "
      f"missing in {leaf['path']!r}; copy the checkpoint again"
    )
  dtype = store.dtype.numpy_dtype
  if dtype == np.uint16:
    dtype = np.dtype(ml_dtypes.bfloat16)

  def load():
    try:
      return store.read().result().view(dtype)
    except ValueError as error:
      raise _damage(name, error) from error

  return Tensor(tuple(store.shape), dtype, load)


def _damage(name: str, error: ValueError) -> UserError:
  reason = str(error).splitlines()[0].partition(" [tensorstore_spec=")[0]
  return UserError(
    f"the array {name!r} of the T5X checkpoint is missing or damaged: "
    f"{reason[:300]}"
  )


def write(
  folder: pathlib.Path,
  arrays: Mapping[str, Tensor],
  values: Mapping[str, Tensor],
) -> None:
  """Writes a checkpoint, one array in memory at a time.

  Args:
    folder: `checkpoint_<step>`; written aside and renamed when it is whole.
    arrays: name -> what gets a folder of its own.
    values: name -> what stands in the index.

  Raises:
    UserError: the folder is there already.
  """
  if folder.exists():
    raise UserError(
      f"{str(folder)!r} is there already; name another folder, or remove it"
    )
  partial = folder.with_name(folder.name + ".partial")
  partial.mkdir(parents=True, exist_ok=True)
  flat = {name: value.read() for name, value in values.items()}
  for name, tensor in arrays.items():
    flat[name] = _write_array(partial, name.replace("/", "."), tensor)
  index = serialization.msgpack_serialize(
    {
      "version": VERSION,
      "optimizer": traverse_util.unflatten_dict(flat, sep="/"),
    }
  )
  (partial / INDEX).write_bytes(index)
  partial.rename(folder)


def _write_array(folder: pathlib.Path, place: str, tensor: Tensor) -> dict:
  """Writes an array and returns its spec, relative to the folder."""
  import tensorstore

  spec = {
    "driver": "zarr",
    "dtype": tensor.dtype.name,
    "kvstore": {"driver": "file", "path": place},
    "metadata": {
      # T5X's own gzip packs hardly better and six times slower.
      "compressor": {"id": "zstd", "level": 1},
      "shape": list(tensor.shape),
      "chunks": chunk_shape(tensor.shape, CHUNK_BYTES // tensor.dtype.itemsize),
    },
  }
  absolute = {"driver": "file", "path": str(folder / place)}
  store = tensorstore.open(
    {**spec, "kvstore": absolute}, create=True, delete_existing=True
  ).result()
  array, written = tensor.read(), collections.deque()
  try:
    for part in _parts(tensor.shape, spec["metadata"]["chunks"]):
      if len(written) == _CHUNKS_AT_ONCE:
        written.popleft().result()
      written.append(store[part].write(array[part]))
    for write in written:
      write.result()
  except ValueError as error:
    if "RESOURCE_EXHAUSTED" not in str(error):
      raise
    # TensorStore's word for it.
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
  return spec


def _parts(
  shape: tuple[int, ...], chunk: Sequence[int]
) -> Iterator[tuple[slice, ...]]:
  """The places of the chunks within an array."""
  starts = (range(0, n, c) for n, c in zip(shape, chunk, strict=True))
  for start in itertools.product(*starts):
    yield tuple(slice(s, s + c) for s, c in zip(start, chunk, strict=True))


def chunk_shape(shape: tuple[int, ...], most_elements: int) -> list[int]:
  """The shape of equal chunks of at most so many elements.

  The longest axis is cut first, by the least divisor that helps, as T5X does.
  """
  chunk = list(shape)
  while np.prod(chunk, dtype=np.int64) > most_elements:
    axis = int(np.argmax(chunk))
    length = chunk[axis]
    chunk[axis] = max(n for n in range(1, length) if length % n == 0)
  return chunk
