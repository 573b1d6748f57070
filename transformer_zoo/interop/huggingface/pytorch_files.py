"""PyTorch's `.bin` files, read by `torch.load` with `weights_only`."""

import os
import pathlib
from typing import Any
import zipfile

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import Tensor

# Files of PyTorch before 1.6 begin otherwise.
_ARCHIVE = b"PK\x03\x04"
_NO_MEMORY = "Cannot allocate memory"


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
  """Opens a file: name -> tensor, mapped where its format allows it.

  Raises:
    UserError: PyTorch is not installed, or the file is damaged, or holds more
      than tensors.
  """
  path = pathlib.Path(path)
  try:
    import torch
  except ImportError as error:
    raise UserError(
      f"{str(path)!r} is read by PyTorch, which is not installed; install it "
      "with `pip install torch`, or convert the file to safetensors"
    ) from error
  try:
    records = _records(path)
    # torch would map compressed bytes as if they were numbers.
    mapped = bool(records) and all(
      record.compress_type == zipfile.ZIP_STORED for record in records
    )
    found = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    if unnamed := [name for name in found if not isinstance(name, str)]:
      raise ValueError(f"its names of tensors are no texts: {unnamed[0]!r}")
    if mapped:
      _check_sizes(records, found.values())
    return {name: Tensor.of(_array(value)) for name, value in found.items()}
  except Exception as error:  # PyTorch raises many kinds for a bad file.
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0].partition(". ")[0][:200]
    if _NO_MEMORY in reason:
      raise UserError(
        f"{str(path)!r} is larger than the memory that this machine gives to a "
        f"program ({reason}); convert it to safetensors on a larger one"
      ) from error
    raise UserError(
      f"{str(path)!r} is no whole file of PyTorch tensors ({reason}); copy it "
      "again"
    ) from error


def _records(path: pathlib.Path) -> list[zipfile.ZipInfo]:
  """The files in an archive, in the order of their bytes; else none.

  Raises:
    BadZipFile: Some overlap, or are not where the directory names them.
  """
  with open(path, "rb") as file:
    if file.read(len(_ARCHIVE)) != _ARCHIVE:
      return []
  with zipfile.ZipFile(path) as archive:
    records = sorted(archive.infolist(), key=lambda found: found.header_offset)
    for record in records:
      archive.open(record).close()
    return records


def _check_sizes(records, tensors) -> None:
  """Compares the storages of mapped tensors with their files in the archive.

  `torch.load` maps as many bytes as the pickle names, be the file that holds
  them shorter or not.

  Raises:
    ValueError: A storage has another size than its file.
  """
  storages = {
    value.untyped_storage().data_ptr(): value.untyped_storage().nbytes()
    for value in tensors
  }
  mapped = [size for _, size in sorted(storages.items()) if size]
  stored = [
    record.file_size
    for record in records
    if record.filename.split("/")[-2:-1] == ["data"] and record.file_size
  ]
  if mapped != stored:
    raise ValueError("its tensors have other sizes than its archive holds")


def _array(value: Any) -> np.ndarray:
  import torch

  name = str(value.dtype).removeprefix("torch.")
  dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
  value = value.detach()
  # numpy has no bfloat16 of its own.
  numbers = value.view(torch.int16) if value.element_size() == 2 else value
  return numbers.numpy().view(dtype)
