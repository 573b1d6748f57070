"""Reading PyTorch's `.bin` files, whose pickle is never executed."""

import os
import pathlib
import zipfile

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors import Tensor


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens a file: name -> tensor, mapped where the file's format allows it.

  Raises:
    UserError: PyTorch is not installed, or the file is damaged, or holds more
      than tensors.
  """
  path = pathlib.Path(path)
  try:
    import torch
  except ImportError as error:
    raise UserError(
      f"{str(path)!r} is read by PyTorch, which is not installed; install "
      "transformer_zoo[interop], or convert the file to safetensors"
    ) from error
  try:
    # Files of PyTorch before 1.6 are no archives and cannot be mapped.
    state = torch.load(
      path,
      map_location="cpu",
      weights_only=True,
      mmap=zipfile.is_zipfile(path),
    )
    return {name: _tensor(value) for name, value in state.items()}
  except Exception as error:  # PyTorch raises many kinds for a bad file.
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise UserError(
      f"{str(path)!r} is no whole file of PyTorch tensors "
      f"({reason[0][:200]}); copy it again"
    ) from error


def _tensor(value) -> Tensor:
  import torch

  value = value.detach()  # It may be a parameter, with a gradient.

  def read():
    if value.dtype == torch.bfloat16:
      return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()

  name = str(value.dtype).removeprefix("torch.")
  dtype = ml_dtypes.bfloat16 if name == "bfloat16" else name
  return Tensor(tuple(value.shape), np.dtype(dtype), read)
