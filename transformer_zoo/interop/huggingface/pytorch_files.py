"""Reading PyTorch's `.bin` files, whose pickle is never executed."""

import os
import pathlib
import zipfile

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors import Tensor

# Of tensors that are read from one mapping of a file.
_MOST_BYTES = 1 << 28


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens a file: name -> tensor, mapped where the file's format allows it.

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
    file = _File(path)
    return {
      name: Tensor(
        tuple(value.shape),
        _dtype(value),
        lambda name=name: _array(file.tensor(name)),
      )
      for name, value in file.tensors.items()
    }
  except Exception as error:  # PyTorch raises many kinds for a bad file.
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise UserError(
      f"{str(path)!r} is no whole file of PyTorch tensors "
      f"({reason[0][:200]}); copy it again"
    ) from error


class _File:
  """A file that is mapped as a whole, and anew before too much was read.

  Pages that were read count as memory while anything holds the mapping.
  """

  def __init__(self, path: pathlib.Path):
    self._path = path
    # Files of PyTorch before 1.6 are no archives and cannot be mapped.
    self._can_be_mapped = zipfile.is_zipfile(path)
    self._read_bytes = 0
    self.tensors = self._load()

  def tensor(self, name: str):
    """Returns one of its tensors."""
    if self._can_be_mapped and self._read_bytes > _MOST_BYTES:
      self._read_bytes, self.tensors = 0, self._load()
    value = self.tensors[name]
    self._read_bytes += value.nbytes
    return value

  def _load(self):
    import torch

    return torch.load(
      self._path,
      map_location="cpu",
      weights_only=True,
      mmap=self._can_be_mapped,
    )


def _dtype(value) -> np.dtype:
  name = str(value.dtype).removeprefix("torch.")
  return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _array(value) -> np.ndarray:
  import torch

  value = value.detach()  # It may be a parameter, with a gradient.
  if value.dtype == torch.bfloat16:
    return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
  return value.numpy()
