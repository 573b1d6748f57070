"""Flax files of `transformers` before its version 5, `flax_model.msgpack`.

Parameters have the names of PyTorch's classes but for the last part, and
matrices lie the other way round (`modeling_flax_pytorch_utils` of
`transformers` 4), so that a family reads both by one list of links.
"""

import os
import pathlib

from flax import serialization
from flax import traverse_util
import msgpack
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import Tensor

_WEIGHTS = ("kernel", "scale", "embedding")


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens a file: name in PyTorch's classes -> tensor, all in memory.

  Raises:
    UserError: The file is damaged, or holds more than arrays.
  """
  path = pathlib.Path(path)
  try:
    contents = serialization.msgpack_restore(path.read_bytes())
  except (ValueError, TypeError, msgpack.UnpackException) as error:
    raise UserError(
      f"{str(path)!r} is no whole file of Flax arrays ({error}); copy it again"
    ) from error
  if not isinstance(contents, dict):
    raise UserError(f"{str(path)!r} is no file of Flax arrays")
  found = traverse_util.flatten_dict(contents, sep="/")
  tensors = {}
  for name, array in found.items():
    if not isinstance(array, np.ndarray):
      raise UserError(
        f"{str(path)!r} holds {type(array).__name__} under {name!r} and no "
        "array"
      )
    is_matrix = name.endswith("/kernel") and array.ndim == 2
    tensors[name_of(name)] = Tensor.of(array.T if is_matrix else array)
  return tensors


def name_of(name: str) -> str:
  """The name in PyTorch's classes of `encoder/layer/0/dense/kernel`."""
  *owner, last = name.split("/")
  return ".".join((*owner, "weight" if last in _WEIGHTS else last))
