"""Run folders in other places: `gs://`, `s3://`, any URL that fsspec knows.

A run works in a folder of its machine. A thread copies what changes there to
the URL; a run that finds more at the URL than in the folder, as on a machine
that is new, fetches it first. Object stores rename nothing, so a checkpoint
counts at the URL from its `checksums.json` on, which is copied last.
"""

from collections.abc import Callable, Iterator
import contextlib
import functools
import os
import pathlib
import shutil
import threading
import time
from typing import Any
import urllib.parse

import jax

from transformer_zoo.errors import UserError

FOLDER = pathlib.Path("runs", "mirrored")
_SEAL = "checksums.json"
_CHECKPOINTS = "checkpoints"
# Parts of names of what is not whole yet, or no more.
_PASSING = (".orbax-checkpoint-tmp", ".removed", ".new")
_SECONDS_BETWEEN = 30.0
_TRIES = 4

_Stat = tuple[int, int]


def is_url(path: str | os.PathLike[str]) -> bool:
  """Whether a path names another place than a folder of this machine."""
  return "://" in str(path)


def with_mirror(train: Callable[..., str]) -> Callable[..., str]:
  """Lets a function that works in the folder `model_dir` take a URL for it."""

  @functools.wraps(train)
  def run(*, model_dir: str, **arguments: Any) -> str:
    with opened(model_dir) as folder:
      return train(model_dir=str(folder), **arguments)

  return run


@contextlib.contextmanager
def opened(model_dir: str) -> Iterator[pathlib.Path]:
  """The folder of this machine that stands for a folder or a URL.

  Args:
    model_dir: either. What is at a URL is fetched, and what comes to be in the
      folder is copied there, meanwhile and at the end.

  Raises:
    UserError: there is no such place, or nothing can be written there.
  """
  if not is_url(model_dir):
    yield pathlib.Path(model_dir)
    return
  if jax.process_count() > 1:
    raise UserError(
      f"MODEL_DIR={model_dir!r} is for a run of one process, and these are "
      f"{jax.process_count()}: give a folder that all of them see (NFS, "
      "Filestore, gcsfuse)"
    )
  mirror = Mirror(model_dir, FOLDER / urllib.parse.quote(model_dir, safe=""))
  mirror.fetch()
  mirror.start()
  try:
    yield mirror.folder
  except BaseException:
    # What ended the run is told, and the copy tried nevertheless.
    mirror.stop(must=False)
    raise
  mirror.stop()


def fetched(path: str | os.PathLike[str]) -> pathlib.Path:
  """The folder of a path, or one with what is at a URL now.

  Raises:
    UserError: there is no such place.
  """
  if not is_url(path):
    return pathlib.Path(path)
  mirror = Mirror(str(path), FOLDER / urllib.parse.quote(str(path), safe=""))
  mirror.fetch()
  return mirror.folder


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
    report: Callable[[str], None] = print,
    pause: Callable[[float], None] = time.sleep,
  ):
    """Finds the place; nothing is read or written.

    Args:
      url: of the copy.
      folder: made when missing.
      report: called with one sentence for what a user should know.
      pause: waits so many seconds, between two tries.

    Raises:
      UserError: fsspec does not know the URL, or needs a package for it.
    """
    self.folder = folder
    self._url = url.rstrip("/")
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
      lead = _progress(there) - _progress(self._local())
      if lead > 0:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._report(f"{self._url} is fetched to {self.folder}")
      here = self._local()
      # An earlier fetch may have been broken off.
      missing = _whole(there).keys() - here.keys() if lead >= 0 else ()
      for name in sorted(missing, key=_order):
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
    return {
      path.removeprefix(self._root).lstrip("/"): int(told["size"] or 0)
      for path, told in found.items()
    }

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
      if not any(part in name for part in _PASSING)
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


def _progress(files: dict[str, Any]) -> int:
  """The newest whole checkpoint; 0 without one, -1 without any file."""
  steps = [_step(name) for name in files if _is_seal(name)]
  return max((int(s) for s in steps if s.isdigit()), default=0 if files else -1)


def _reason(error: Exception) -> str:
  return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
