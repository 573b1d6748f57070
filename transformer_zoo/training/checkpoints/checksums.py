"""Checksums (CRC-32) of a checkpoint's files, stored beside them.

`checksums.json` lists the files that the first process wrote, or all files;
`checksums.<i>.json` lists the files of process i. Each process computes the
checksums of the files that it wrote, and the processes share the verification
of all files.
"""

from collections.abc import Iterable, Mapping
import concurrent.futures
import heapq
import json
import os
import re
import zlib

from etils import epath

_NAME = re.compile(r"checksums(\.\d+)?\.json(\.new)?")
# The folder to which Orbax writes the arrays of one process.
_OF_PROCESS = re.compile(r"(?:^|/)ocdbt\.process_(\d+)/")
_CHUNK = 1 << 22
_THREADS = 8


def write(
  folder: os.PathLike[str], known: Mapping[str, int] | None = None
) -> None:
  """Writes the checksums of a checkpoint that is complete.

  Args:
    folder: The folder of the checkpoint.
    known: The checksums of some files, by their names in the folder. These
      files are not read again.
  """
  folder, known = epath.Path(folder), known or {}
  names = sorted(_sizes(folder))
  sums = _sums(folder, [name for name in names if name not in known])
  everything = {**known, **sums}
  _write(folder, "checksums.json", {name: everything[name] for name in names})


def write_share(folder: os.PathLike[str], process: int, count: int) -> None:
  """Writes the checksums of the files that a process wrote.

  Args:
    folder: The folder of the complete checkpoint.
    process: The index of the process.
    count: The number of processes. If more processes wrote the checkpoint, the
      files of the missing ones are shared out.
  """
  folder = epath.Path(folder)
  names = [n for n in sorted(_sizes(folder)) if _owner(n) % count == process]
  name = f"checksums.{process}.json" if process else "checksums.json"
  _write(folder, name, _sums(folder, names))


def read(folder: os.PathLike[str]) -> dict[str, int]:
  """Reads the checksums of a checkpoint; empty if there are none.

  Raises:
    ValueError: A file of checksums is damaged.
  """
  sums = {}
  for path in epath.Path(folder).glob("checksums*.json"):
    try:
      sums.update(json.loads(path.read_text()))
    except ValueError as error:
      raise ValueError(f"{path.name} cannot be read ({error})") from error
  return sums


def verify(folder: os.PathLike[str]) -> bool:
  """Compares the files of a checkpoint with their checksums.

  Returns:
    True if every file has a checksum.

  Raises:
    ValueError: a file is missing or changed.
  """
  return verify_share(folder, 0, 1)


def verify_share(folder: os.PathLike[str], process: int, count: int) -> bool:
  """Compares one process's share of the files with their checksums.

  Args:
    folder: The folder of the checkpoint.
    process: The index of the process.
    count: The number of processes, whose shares have about as many bytes.

  Returns:
    True if every file of the checkpoint has a checksum.

  Raises:
    ValueError: a file is missing, or one of the share has changed.
  """
  folder = epath.Path(folder)
  known, sizes = read(folder), _sizes(folder)
  for name in known:
    if name not in sizes:
      raise ValueError(f"{name} is missing")
  share = _share({n: sizes[n] for n in known}, process, count)
  found = _sums(folder, share)
  for name in share:
    if found[name] != known[name]:
      raise ValueError(f"{name} has changed since it was written")
  return bool(known) and known.keys() >= sizes.keys()


def identity(folder: os.PathLike[str]) -> str:
  """Returns a text that changes when the files of a checkpoint do."""
  folder = epath.Path(folder)
  summed = [path.name for path in folder.glob("checksums*.json")]
  sums = _sums(folder, summed or _sizes(folder))
  return " ".join(f"{sums[name]:08x}" for name in sorted(sums))


def of_file(path: os.PathLike[str]) -> int:
  """Returns the checksum of a file."""
  return _checksum(epath.Path(path))


def sizes(folder: os.PathLike[str]) -> dict[str, int]:
  """Returns the bytes of a checkpoint's files by name, without checksums."""
  return _sizes(epath.Path(folder))


def _owner(name: str) -> int:
  found = _OF_PROCESS.search(name)
  return int(found.group(1)) if found else 0


def _share(sizes: Mapping[str, int], process: int, count: int) -> list[str]:
  """Assigns each file, largest first, to the process with the fewest bytes."""
  shares = [(0, index, []) for index in range(count)]
  for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
    total, index, names = heapq.heappop(shares)
    names.append(name)
    heapq.heappush(shares, (total + sizes[name], index, names))
  return sorted(next(names for _, i, names in shares if i == process))


def _sizes(folder: epath.Path, prefix: str = "") -> dict[str, int]:
  """Returns the bytes of the files by their names in the checkpoint."""
  found = {}
  for entry in folder.iterdir():
    if entry.is_dir():
      found |= _sizes(entry, f"{prefix}{entry.name}/")
    elif prefix or not _NAME.fullmatch(entry.name):
      found[f"{prefix}{entry.name}"] = entry.stat().length
  return found


def _sums(folder: epath.Path, names: Iterable[str]) -> dict[str, int]:
  names = list(names)
  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    sums = pool.map(lambda name: _checksum(folder / name), names)
    return dict(zip(names, sums, strict=True))


def _checksum(path: epath.Path) -> int:
  checksum = 0
  with path.open("rb") as file:
    while chunk := file.read(_CHUNK):
      checksum = zlib.crc32(chunk, checksum)
  return checksum


def _write(folder: epath.Path, name: str, sums: Mapping[str, int]) -> None:
  temporary = folder / f"{name}.new"
  temporary.write_text(json.dumps(sums, indent=1))
  temporary.replace(folder / name)
