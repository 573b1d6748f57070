"""The files of a T5X checkpoint: a msgpack index and TensorStore arrays.

A checkpoint is a folder `checkpoint_<step>` with a file `checkpoint`, Flax's
msgpack of {version, optimizer: {target, state}}. Small values stand in it; in
place of an array stands the TensorStore spec of a zarr folder beside it, whose
path is relative and named by the path in the tree, joined by dots (T5X
`checkpoints.py`). Names here are those paths, joined by slashes.
"""

from collections.abc import Mapping
import os
import pathlib
import re

from flax import serialization
from flax import traverse_util
import ml_dtypes
import msgpack
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors import Tensor

INDEX = "checkpoint"
# T5X's since June 2021. Version 2 kept bfloat16 as uint16.
VERSION = 3
CHUNK_BYTES = 64 * 2**20
PLACEHOLDER = "PLACEHOLDER://"


def find(path: str | os.PathLike[str]) -> pathlib.Path | None:
  """Finds the folder of the checkpoint that a user's path means.

  Args:
    path: a checkpoint's folder, its file `checkpoint`, or a folder of several,
      of which the newest is meant.

  Returns:
    The folder; None where there is no checkpoint of T5X.
  """
  path = pathlib.Path(path).absolute()
  if path.name == INDEX and path.is_file():
    path = path.parent
  steps = {
    int(match[1]): entry
    for entry in path.glob("checkpoint_*")
    if (match := re.fullmatch(r"checkpoint_(\d+)", entry.name))
  }
  folder = steps[max(steps)] if steps else path
  # T5X's first Orbax checkpoints have the same files one folder deeper.
  for place in (folder, folder / "state"):
    if _is_index(place / INDEX):
      return place
  return None


def _is_index(file: pathlib.Path) -> bool:
  """Whether it is a msgpack map; TensorFlow's file of that name is text."""
  if not file.is_file():
    return False
  with file.open("rb") as opened:
    first = opened.read(1)
  return bool(first) and (0x80 <= first[0] <= 0x8F or first[0] in (0xDE, 0xDF))


def read(folder: pathlib.Path) -> dict[str, Tensor]:
  """Reads the index: all arrays and numbers by their names.

  Raises:
    UserError: the file is damaged, or of a version that cannot be read.
  """
  file = folder / INDEX
  try:
    contents = serialization.msgpack_restore(file.read_bytes())
  except (ValueError, msgpack.UnpackException) as error:
    raise UserError(f"{str(file)!r} is damaged: {error}") from error
  version = contents.get("version", 0)
  if "target" in contents:
    tree = contents
  elif version in (2, VERSION) and "optimizer" in contents:
    tree = contents["optimizer"]
  else:
    raise UserError(
      f"{str(file)!r} is a checkpoint of version {version}; versions 2 and "
      f"{VERSION} of T5X can be read"
    )
  flat = traverse_util.flatten_dict(
    tree, is_leaf=lambda _, node: "kvstore" in node, sep="/"
  )
  return {
    name: _tensor(folder, name, leaf)
    for name, leaf in flat.items()
    if leaf is not None
  }


def _tensor(folder: pathlib.Path, name: str, leaf) -> Tensor:
  """What a leaf of the index stands for."""
  if isinstance(leaf, str):
    place = folder / leaf.removeprefix(PLACEHOLDER)
  elif isinstance(leaf, dict):
    # Before 2022 the path stood beside the key-value store.
    place = folder / leaf["kvstore"].get("path", leaf.get("path", ""))
  else:
    return Tensor.of(np.asarray(leaf))
  store = _open(name, place)
  dtype = store.dtype.numpy_dtype
  if dtype == np.uint16:
    dtype = np.dtype(ml_dtypes.bfloat16)
  return Tensor(
    tuple(store.shape), dtype, lambda: store.read().result().view(dtype)
  )


def _open(name: str, place: pathlib.Path):
  import tensorstore

  try:
    return tensorstore.open(
      {"driver": "zarr", "kvstore": {"driver": "file", "path": str(place)}},
      read=True,
    ).result()
  except ValueError as error:
    raise UserError(
      f"the array of {name} in {str(place)!r} is missing or damaged "
      f"({str(error).splitlines()[0][:200]})"
    ) from error


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
  store.write(tensor.read()).result()
  return spec


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
