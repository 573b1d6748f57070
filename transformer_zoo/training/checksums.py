"""Checksums of a checkpoint's files, in `checksums.json` beside them."""

from collections.abc import Mapping
import json
import os
import pathlib
import zlib

_NAME = "checksums.json"
_CHUNK = 1 << 22


def write(folder: pathlib.Path, known: Mapping[str, int] | None = None) -> None:
  """Writes the checksums of a checkpoint that is complete.

  Args:
    folder: of the checkpoint.
    known: those of some files, by their names in it, which are not read again.
  """
  known = known or {}
  names = (path.relative_to(folder).as_posix() for path in _files(folder))
  sums = {
    name: known[name] if name in known else _checksum(folder / name)
    for name in names
  }
  temporary = folder / f"{_NAME}.new"
  temporary.write_text(json.dumps(sums, indent=1))
  os.replace(temporary, folder / _NAME)


def read(folder: pathlib.Path) -> dict[str, int]:
  """The checksums of a checkpoint's files; empty where there are none."""
  path = folder / _NAME
  return json.loads(path.read_text()) if path.exists() else {}


def verify(folder: pathlib.Path) -> bool:
  """Compares files with their checksums; False where these are not there.

  Raises:
    ValueError: a file is missing or changed.
  """
  known = read(folder)
  if not known:
    return False
  for name, checksum in known.items():
    file = folder / name
    if not file.exists():
      raise ValueError(f"{name} is missing")
    if _checksum(file) != checksum:
      raise ValueError(f"{name} has changed since it was written")
  return True


def identity(folder: pathlib.Path) -> str:
  """Returns a text that changes when the files of a checkpoint do."""
  path = folder / _NAME
  summed = [path] if path.exists() else _files(folder)
  return " ".join(f"{_checksum(file):08x}" for file in summed)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted(
    path for path in folder.rglob("*") if path.is_file() and path.name != _NAME
  )


def _checksum(path: pathlib.Path) -> int:
  checksum = 0
  with open(path, "rb") as file:
    while chunk := file.read(_CHUNK):
      checksum = zlib.crc32(chunk, checksum)
  return checksum
