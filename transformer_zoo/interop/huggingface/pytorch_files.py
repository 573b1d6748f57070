"""Reading PyTorch's `.bin` files, whose pickle is never executed."""

from collections.abc import Mapping
import functools
import os
import pathlib
from typing import Any
import zipfile

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors.lazy_tensors import mapped
from transformer_zoo.interop.tensors.lazy_tensors import Tensor

# https://docs.pytorch.org/tutorials/unstable/gpu_direct_storage.html
_OFFSET = "_checkpoint_offset"


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens a file: name -> tensor, read on demand where its format allows it.

  Raises:
    UserError: PyTorch is not installed, or the file is damaged, or holds more
      than tensors.
  """
  path = pathlib.Path(path)
  try:
    import torch  # noqa: F401
  except ImportError as error:
    raise UserError(
      f"{str(path)!r} is read by PyTorch, which is not installed; install "
      "transformer_zoo[interop], or convert the file to safetensors"
    ) from error
  try:
    # Files of PyTorch before 1.6 are no archives, and all of one is in memory.
    is_archive = zipfile.is_zipfile(path)
    tensors = _load(path, "meta" if is_archive else "cpu")
    if is_archive and not _tell_where(tensors):
      tensors = _load(path, "cpu", mmap=True)
    return {
      name: Tensor(
        tuple(value.shape),
        _dtype(value),
        functools.partial(_array, path, value.detach()),
      )
      for name, value in tensors.items()
    }
  except Exception as error:  # PyTorch raises many kinds for a bad file.
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise UserError(
      f"{str(path)!r} is no whole file of PyTorch tensors "
      f"({reason[0][:200]}); copy it again"
    ) from error


def _load(path: pathlib.Path, place: str, **options):
  import torch

  return torch.load(path, map_location=place, weights_only=True, **options)


def _tell_where(tensors: Mapping[str, Any]) -> bool:
  """Whether they know where in the file they are; older PyTorch is silent."""
  return all(
    hasattr(value.untyped_storage(), _OFFSET) for value in tensors.values()
  )


def _dtype(value) -> np.dtype:
  name = str(value.dtype).removeprefix("torch.")
  return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _array(path: pathlib.Path, value) -> np.ndarray:
  """The numbers of a tensor; of one without any, those in the file.

  PyTorch would map the whole file such that the system reckons with all of it,
  and refuses where it is larger than the memory.
  """
  dtype, size = _dtype(value), value.element_size()
  if not value.is_meta:
    import torch

    # numpy has no bfloat16 of its own.
    numbers = value.view(torch.int16) if size == 2 else value
    return numbers.numpy().view(dtype)
  if not value.numel():
    return np.empty(tuple(value.shape), dtype)
  pairs = zip(value.shape, value.stride(), strict=True)
  extent = 1 + sum((length - 1) * stride for length, stride in pairs)
  offset = getattr(value.untyped_storage(), _OFFSET)
  offset += size * value.storage_offset()
  return np.ndarray(
    tuple(value.shape),
    dtype,
    mapped(path, dtype, (extent,), offset),
    strides=[size * stride for stride in value.stride()],
  )
