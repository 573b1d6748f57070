"""A folder of this machine and its copy at a URL of fsspec.

Object stores rename nothing, so a checkpoint counts at the URL from its
`checksums.json` on, which is copied last.
"""

from collections.abc import Callable
import contextlib
import os
import pathlib
import shutil
import threading
import time
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import step_folders
from transformer_zoo.training.monitoring.recorder import METRICS_FILE

_SEAL = "checksums.json"
_CHECKPOINTS = "checkpoints"
# Parts of names of what is not whole yet, or no more.
_PASSING = (step_folders.UNFINISHED, step_folders.REMOVED, ".new")
_SECONDS_BETWEEN = 30.0
_TRIES = 4

_Stat = tuple[int, int]


class Mirror:
  """A folder and its copy at a URL.

  Attributes:
    folder: of this machine.
  """

  def __init__(
    self,
    url: str,
    folder: pathlib.Path,
    *,
    with_checkpoints: bool = True,
    report: Callable[[str], None] = print,
    pause: Callable[[float], None] = time.sleep,
  ):
    """Finds the place; nothing is read or written.

    Args:
      url: of the copy.
      folder: made when missing.
      with_checkpoints: whether those are copied too.
      report: called with one sentence for what a user should know.
      pause: waits so many seconds, between two tries.

    Raises:
      UserError: fsspec does not know the URL, or needs a package for it.
    """
    self.folder = folder
    self._url = url.rstrip("/")
    self._with_checkpoints = with_checkpoints
    self._report, self._pause = report, pause
    self._files, self._root = _file_system(self._url)
    self._copied: dict[str, _Stat | None] = {}
    self._stopping = threading.Event()
    self._thread = threading.Thread(target=self._run, daemon=True)

  def fetch(self) -> None:
    """Brings what is at the URL, where that is more than the folder has.

    Raises:
      UserError: it cannot be read.
    """
    try:
      there = self._listed()
      here = {name: stat[0] for name, stat in self._local().items()}
      ahead = _progress(there) > _progress(here)
      if ahead:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._report(f"{self._url} is fetched to {self.folder}")
        here = {}
      if ahead or _progress(there) == _progress(here):
        # An earlier fetch may have been broken off.
        for name in sorted(_whole(there).keys() - here.keys(), key=_order):
          self._try(self._fetch, name)
    except Exception as error:  # Each file system raises kinds of its own.
      raise UserError(
        f"{self._url!r} cannot be read ({_reason(error)}); look at the name, "
        "the permissions and the network"
      ) from error
    self.folder.mkdir(parents=True, exist_ok=True)
    here = self._local()
    self._copied = {
      name: here.get(name)
      for name, size in there.items()
      if _step(name) and (name not in here or here[name][0] == size)
    }

  def copy(self) -> None:
    """Brings the URL to what is in the folder.

    Raises:
      Exception: of the file system, when it has been tried several times.
    """
    local = _whole(self._local())
    gone = self._copied.keys() - local.keys()
    for name in sorted(gone, key=_is_seal, reverse=True):
      self._try(self._remove, name)
      del self._copied[name]
    changed = [n for n in local if self._copied.get(n) != local[n]]
    for name in sorted(changed, key=_order):
      with contextlib.suppress(FileNotFoundError):  # Removed meanwhile.
        self._try(self._copy, name)
        self._copied[name] = local[name]

  def start(self) -> None:
    """Copies from now on, in the background."""
    self._thread.start()

  def stop(self, must: bool = True) -> None:
    """Copies a last time.

    Args:
      must: whether a copy that fails is an error.

    Raises:
      UserError: the last copy fails.
    """
    self._stopping.set()
    self._thread.join()
    try:
      self.copy()
    except Exception as error:  # Each file system raises kinds of its own.
      sentence = (
        f"{self._url!r} could not be written ({_reason(error)}); all of it is "
        f"in {str(self.folder)!r}, and the same command copies it"
      )
      if must:
        raise UserError(sentence) from error
      self._report(sentence)

  def _run(self) -> None:
    while not self._stopping.wait(_SECONDS_BETWEEN):
      try:
        self.copy()
      except Exception as error:  # Each file system raises kinds of its own.
        self._report(
          f"{self._url} could not be written ({_reason(error)}); the run goes "
          "on and it is tried again"
        )

  def _try(self, action: Callable[[str], None], name: str) -> None:
    for tries in range(_TRIES):
      try:
        return action(name)
      except FileNotFoundError:
        raise
      except Exception:  # Each file system raises kinds of its own.
        if tries == _TRIES - 1:
          raise
        self._pause(2.0**tries)

  def _fetch(self, name: str) -> None:
    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
    self._files.get_file(f"{self._root}/{name}", str(self.folder / name))

  def _copy(self, name: str) -> None:
    there = f"{self._root}/{name}"
    self._files.makedirs(os.path.dirname(there), exist_ok=True)
    self._files.put_file(str(self.folder / name), there)

  def _remove(self, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
      self._files.rm_file(f"{self._root}/{name}")

  def _listed(self) -> dict[str, int]:
    """Bytes of the files at the URL."""
    self._files.invalidate_cache()
    found = self._files.find(self._root, detail=True)
    sizes = {
      path.removeprefix(self._root).lstrip("/"): int(told["size"] or 0)
      for path, told in found.items()
    }
    return {name: sizes[name] for name in sizes if self._is_ours(name)}

  def _is_ours(self, name: str) -> bool:
    return self._with_checkpoints or _step(name) is None

  def _local(self) -> dict[str, _Stat]:
    """Bytes and time of the files in the folder; the time tells changes."""
    found = {}
    for path in self.folder.rglob("*"):
      with contextlib.suppress(FileNotFoundError):
        if path.is_file():
          stat = path.stat()
          name = path.relative_to(self.folder).as_posix()
          found[name] = stat.st_size, stat.st_mtime_ns
    return {
      name: stat
      for name, stat in found.items()
      if self._is_ours(name) and not any(part in name for part in _PASSING)
    }


def _file_system(url: str) -> tuple[Any, str]:
  import fsspec

  try:
    return fsspec.core.url_to_fs(url)
  except ImportError as error:
    raise UserError(
      f"{url!r} needs a package that is not installed ({error}); "
      "install it, `pip install gcsfs` for gs:// or s3fs for s3://"
    ) from error
  except ValueError as error:
    raise UserError(
      f"{url!r} is no place that fsspec knows ({error}); give a "
      "folder, or a URL such as gs://bucket/run"
    ) from error


def _step(name: str) -> str | None:
  """The checkpoint that a file is of."""
  parts = name.split("/")
  return parts[1] if parts[0] == _CHECKPOINTS and len(parts) > 2 else None


def _is_seal(name: str) -> bool:
  return _step(name) is not None and name.count("/") == 2 and _SEAL in name


def _order(name: str) -> tuple[bool, bool]:
  """Numbers, then what a run has recorded until then, then seals."""
  return _is_seal(name), _step(name) is None


def _whole(files: dict[str, Any]) -> dict[str, Any]:
  """All but the files of checkpoints that are still written, or removed."""
  sealed = {_step(name) for name in files if _is_seal(name)}
  return {
    name: told
    for name, told in files.items()
    if _step(name) is None or _step(name) in sealed
  }


def _progress(sizes: dict[str, int]) -> tuple[int, int]:
  """How far a run is: its newest whole checkpoint, and what it has recorded."""
  steps = [_step(name) for name in sizes if _is_seal(name)]
  newest = max((int(s) for s in steps if s.isdigit()), default=-1)
  return newest, sizes.get(METRICS_FILE, -1)


def _reason(error: Exception) -> str:
  return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
