"""Checksums of prepared files, block by block, so that damage has a place.

Every block of `BLOCK_BYTES` of a record file has a CRC-32. Small files are read
through when they are opened; of larger ones, what is read is checked.
"""

import dataclasses
import functools
import hashlib
import os
import zlib

import numpy as np

from transformer_zoo.errors import UserError

Path = str | os.PathLike[str]

BLOCK_BYTES = 8192
# Reading a file through takes a second per GB where the disk is fast.
LARGEST_CHECKED = 1 << 28
_BLOCKS_READ = 128  # at a time


@dataclasses.dataclass(frozen=True)
class StoredFile:
  """A file as it was written.

  Attributes:
    name: within the folder of its task.
    num_bytes: The size of the file.
    sha256: The SHA-256 checksum of the file, in hexadecimal.
  """

  name: str
  num_bytes: int
  sha256: str


def describe(path: Path) -> StoredFile:
  """Returns what is noted down of a file that has just been written."""
  return StoredFile(os.path.basename(path), os.path.getsize(path), sha256(path))


def sha256(path: Path) -> str:
  """Returns the SHA-256 of a file, in hexadecimal."""
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def block_checksums(path: Path) -> np.ndarray:
  """Returns the CRC-32 of each block of a file, uint32 [blocks]."""
  found = []
  with open(path, "rb") as file:
    while piece := file.read(_BLOCKS_READ * BLOCK_BYTES):
      view = memoryview(piece)
      found += [
        zlib.crc32(view[start : start + BLOCK_BYTES])
        for start in range(0, len(piece), BLOCK_BYTES)
      ]
  return np.array(found, np.uint32)


def check_size(path: str, num_bytes: int) -> None:
  """Raises UserError unless the file is there and as long as it was."""
  size = _status(path).st_size
  if size != num_bytes:
    where = f" from byte {size} on" if size < num_bytes else ""
    raise damaged(
      path, f"it has {size} bytes, its manifest says {num_bytes}", where
    )


def check_blocks(path: str, expected: np.ndarray) -> None:
  """Raises UserError unless every block of a file is as it was written.

  Args:
    path: The path of the file.
    expected: `block_checksums` of it when it was written.
  """
  status = _status(path)
  found = _blocks_now(path, status.st_mtime_ns, status.st_size)
  if len(found) != len(expected):
    raise damaged(path, "it has another number of blocks than of checksums")
  if len(wrong := np.flatnonzero(found != expected)):
    raise damaged_block(path, int(wrong[0]))


def check_whole(path: str, stored: StoredFile) -> None:
  """Raises UserError unless a file is as it was written; large ones by size."""
  check_size(path, stored.num_bytes)
  status = _status(path)
  if stored.num_bytes <= LARGEST_CHECKED and stored.sha256 != _sha256_now(
    path, status.st_mtime_ns, status.st_size
  ):
    raise damaged(path, "its checksum is not the one in its manifest")


def damaged_block(path: str, block: int) -> UserError:
  """Returns the error of a block whose checksum is not what was written."""
  start = block * BLOCK_BYTES
  return damaged(
    path,
    "its content is not what was written",
    f" in the {BLOCK_BYTES} bytes from byte {start} on",
  )


def damaged(path: str, reason: str, where: str = "") -> UserError:
  """Returns the error of a prepared file that cannot be used."""
  return UserError(
    f"The prepared file {path!r} is damaged{where}: {reason}; delete it and "
    "run `zoo prepare` again."
  )


def unreadable(path: str, error: OSError) -> UserError:
  """Returns the error of a prepared file that is absent or cannot be opened."""
  return UserError(
    f"The prepared file {path!r} cannot be read ({error.strerror}); run "
    "`zoo prepare` again."
  )


def _status(path: str) -> os.stat_result:
  try:
    return os.stat(path)
  except OSError as error:
    raise unreadable(path, error) from None


@functools.lru_cache(maxsize=1024)
def _sha256_now(path: str, modified: int, size: int) -> str:
  del modified, size  # part of the cache key only
  return sha256(path)


@functools.lru_cache(maxsize=1024)
def _blocks_now(path: str, modified: int, size: int) -> np.ndarray:
  del modified, size  # part of the cache key only
  return block_checksums(path)
