"""T5X checkpoints written from the definition of the format, not by our writer.

T5X `checkpoints.py`: Flax's msgpack with a TensorStore spec in the place of
every array that has mesh axes, and `adafactor.py`: which means are kept.
"""

from flax import serialization
from flax import traverse_util
import numpy as np
import tensorstore


def write(folder, arrays, values, *, version=3, driver="file"):
  """Writes `folder`/checkpoint and the arrays beside it.

  Args:
    folder: of the checkpoint.
    arrays: name -> array that gets a folder of its own.
    values: name -> value that stands in the index.
    version: of the format.
    driver: of the file system that T5X wrote to.
  """
  folder.mkdir(parents=True, exist_ok=True)
  flat = dict(values)
  for name, array in arrays.items():
    place = name.replace("/", ".")
    metadata = {
      "compressor": {"id": "gzip"},
      "shape": list(array.shape),
      "chunks": [max(1, size // 2) for size in array.shape],
    }
    spec = {"driver": "zarr", "dtype": array.dtype.name, "metadata": metadata}
    store = {"driver": "file", "path": str(folder / place)}
    opened = tensorstore.open({**spec, "kvstore": store}, create=True).result()
    opened.write(array).result()
    flat[name] = {**spec, "kvstore": {"driver": driver, "path": place}}
  tree = traverse_util.unflatten_dict(flat, sep="/")
  contents = {"version": version, "optimizer": tree}
  (folder / "checkpoint").write_bytes(serialization.msgpack_serialize(contents))


def moments_of(squared, axes):
  """T5X's Adafactor state after one step of beta 0 with squared gradients.

  Args:
    squared: [...] of one parameter.
    axes: logical names of its axes.

  Returns:
    name -> array, for v_row, v_col, v and m.
  """
  unused = np.zeros(1, np.float32)
  state = dict.fromkeys(("v_row", "v_col", "v", "m"), unused)
  columns = {"vocab", "mlp", "heads", "kv", "joined_kv"}
  if "layers" in axes or squared.ndim > 2:
    rows = tuple(i for i, name in enumerate(axes) if name == "embed")
    cols = tuple(i for i, name in enumerate(axes) if name in columns)
    factored = bool(rows and cols)
  else:
    order = np.argsort(squared.shape, kind="stable")
    factored = squared.ndim == 2 and squared.shape[order[-2]] >= 128
    rows, cols = (order[-2:-1], order[-1:]) if squared.ndim == 2 else ((), ())
  if factored:
    state["v_row"] = squared.mean(axis=tuple(map(int, cols)))
    state["v_col"] = squared.mean(axis=tuple(map(int, rows)))
  else:
    state["v"] = squared
  return state
