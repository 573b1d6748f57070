"""Run folders at URLs: `gs://`, `s3://` and the other schemes of fsspec.

A run at a URL works in a local folder. Its small files (metrics, predictions,
configuration) are uploaded after every save and at the end, and downloaded
where the same command starts on a new machine.

At `gs://` Orbax writes checkpoints to the bucket and reads them from there, in
every process. It supports no other store (orbax-checkpoint 0.12.8 refuses
`s3://` as a relative path), so elsewhere a single process writes them to the
local folder, and they are uploaded when they are complete. Object stores rename
nothing: an uploaded checkpoint counts once its `checksums.json` is there, which
is uploaded last and removed first.

Files go through fsspec because `etils.epath` has no `memory://`.
"""

from collections.abc import Iterable, Iterator
import contextlib
import os
import pathlib
import shutil
from typing import Any
import urllib.parse

import jax

from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError
from transformer_zoo.processes import agreement
from transformer_zoo.training.checkpoints.step_folders import is_bucket
from transformer_zoo.training.monitoring.recorder import METRICS_FILE

# A folder of its own: a download may empty the folder that it goes to, which a
# run may be working in.
FETCHED = pathlib.Path("runs", "fetched")
_LOCAL_SCHEME = "file://"
_CHECKPOINTS = "checkpoints"
_SEAL = "checksums.json"


@contextlib.contextmanager
def opened(model_dir: str) -> Iterator[pathlib.Path]:
  """Opens the local folder of a run.

  Every process has its own folder for a URL. All of them start from the files
  at the URL, and the first process uploads its files when the block ends.

  Args:
    model_dir: A local folder or a URL.

  Yields:
    The local folder.

  Raises:
    UserError: the URL cannot be read or written, or several processes cannot
      write checkpoints to it.
  """
  if not run_layout.is_url(model_dir) or model_dir.startswith(_LOCAL_SCHEME):
    yield _local_path(model_dir)
    return
  _check_processes(model_dir)
  folder = _folder_for(model_dir, run_layout.URLS)
  with_checkpoints = not is_bucket(model_dir)
  if jax.process_index():
    agreement.wait("run folder")
    shutil.rmtree(folder, ignore_errors=True)
    _download(model_dir, folder, with_checkpoints)
    yield folder
    return
  _download(model_dir, folder, with_checkpoints)
  upload(folder)  # An earlier run on this machine may have failed to.
  agreement.wait("run folder")
  try:
    yield folder
  except BaseException:
    upload(folder)
    raise
  try:
    _upload(folder)
  except Exception as error:  # Each file system raises kinds of its own.
    raise UserError(
      f"{model_dir!r} cannot be written ({_reason(error)}); the complete run "
      f"is in {str(folder)!r}, and the same command uploads it"
    ) from error


def upload(folder: pathlib.Path) -> None:
  """Uploads the new files of a run at a URL; a failure is only reported.

  The first process uploads; the others, and runs in local folders, do nothing.

  Args:
    folder: The local folder of the run.
  """
  if jax.process_index() or not run_layout.is_of_url(folder):
    return
  try:
    _upload(folder)
  except Exception as error:  # Each file system raises kinds of its own.
    print(
      f"{run_layout.name_of(folder)} cannot be written ({_reason(error)}); the "
      "next save tries again",
      flush=True,
    )


def fetched(path: str | os.PathLike[str]) -> pathlib.Path:
  """Returns a local path, downloading the files at a URL.

  Raises:
    UserError: the URL cannot be read.
  """
  if not run_layout.is_url(path) or str(path).startswith(_LOCAL_SCHEME):
    return _local_path(path)
  folder = _folder_for(str(path), FETCHED)
  _download(str(path), folder, with_checkpoints=True)
  return folder


def _check_processes(url: str) -> None:
  if jax.process_count() > 1 and not is_bucket(url):
    raise UserError(
      f"{jax.process_count()} processes cannot write checkpoints to {url!r}: "
      "give a gs:// URL, or a folder that all of them share"
    )


def _local_path(path: str | os.PathLike[str]) -> pathlib.Path:
  return pathlib.Path(str(path).removeprefix(_LOCAL_SCHEME))


def _folder_for(url: str, parent: pathlib.Path) -> pathlib.Path:
  name = urllib.parse.quote(url.rstrip("/"), safe="")
  index = jax.process_index()
  return parent / (f"{name}.{index}" if index else name)


def _download(url: str, folder: pathlib.Path, with_checkpoints: bool) -> None:
  """Downloads the files at a URL unless the local folder is ahead of them."""
  try:
    files, root = _file_system(url)
    there = _whole(_sizes_at(files, root), with_checkpoints)
    here = _whole(_sizes_in(folder), with_checkpoints)
    if _progress(there) > _progress(here):
      print(f"{url} is downloaded to {folder}", flush=True)
      shutil.rmtree(folder, ignore_errors=True)
      here = {}
    if here and _progress(there) < _progress(here):
      there = {}
    missing = [name for name in there if here.get(name) != there[name]]
    for name in sorted(missing, key=_order):
      (folder / name).parent.mkdir(parents=True, exist_ok=True)
      files.get_file(f"{root}/{name}", str(folder / name))
  except UserError:
    raise
  except Exception as error:  # Each file system raises kinds of its own.
    raise UserError(
      f"{url!r} cannot be read ({_reason(error)}); check the name, the "
      "permissions and the network"
    ) from error
  folder.mkdir(parents=True, exist_ok=True)


def _upload(folder: pathlib.Path) -> None:
  """Uploads the files that differ, and removes checkpoints that are gone."""
  url = run_layout.name_of(folder)
  with_checkpoints = not is_bucket(url)
  files, root = _file_system(url)
  there = _sizes_at(files, root)
  here = _whole(_sizes_in(folder), with_checkpoints)
  gone = [
    name
    for name in there
    if with_checkpoints and _step_of(name) and name not in here
  ]
  for name in sorted(gone, key=_order, reverse=True):
    files.rm_file(f"{root}/{name}")
  # The files in the run folder itself may change and keep their sizes.
  changed = [n for n in here if "/" not in n or there.get(n) != here[n]]
  for name in sorted(changed, key=_order):
    files.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
    with contextlib.suppress(FileNotFoundError):  # The run has removed it.
      files.put_file(str(folder / name), f"{root}/{name}")


def _file_system(url: str) -> tuple[Any, str]:
  """Returns the file system of fsspec for a URL, and the path in it."""
  import fsspec

  try:
    files, root = fsspec.core.url_to_fs(url.rstrip("/"))
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
  files.invalidate_cache()
  return files, root


def _sizes_at(files: Any, root: str) -> dict[str, int]:
  """Returns the bytes of the files below a path of a file system."""
  found = files.find(root, detail=True)
  return {
    path.removeprefix(root).lstrip("/"): int(info["size"] or 0)
    for path, info in found.items()
  }


def _sizes_in(folder: pathlib.Path) -> dict[str, int]:
  """Returns the bytes of the files in a local folder."""
  found = {}
  for path in folder.rglob("*"):
    # A run may remove or rename a file meanwhile.
    with contextlib.suppress(FileNotFoundError):
      if path.is_file() and not path.name.endswith(".new"):
        found[path.relative_to(folder).as_posix()] = path.stat().st_size
  return found


def _whole(sizes: dict[str, int], with_checkpoints: bool) -> dict[str, int]:
  """Leaves out unfinished, damaged or all checkpoints."""
  steps = set(_complete_steps(sizes)) if with_checkpoints else set()
  return {
    name: size
    for name, size in sizes.items()
    if (with_checkpoints and _step_of(name) in steps)
    or not name.startswith(f"{_CHECKPOINTS}/")
  }


def _step_of(name: str) -> int | None:
  """Returns the step of the checkpoint that a file belongs to."""
  parts = name.split("/")
  is_step = parts[0] == _CHECKPOINTS and len(parts) > 2 and parts[1].isdigit()
  return int(parts[1]) if is_step else None


def _complete_steps(names: Iterable[str]) -> list[int]:
  return [_step_of(name) for name in names if _is_seal(name)]


def _is_seal(name: str) -> bool:
  return _step_of(name) is not None and name.split("/")[2:] == [_SEAL]


def _order(name: str) -> tuple[int, int]:
  """Sorts files so that an interrupted copy is behind its original.

  Arrays come first, then the other files, the metrics of these last, then the
  seals of checkpoints by step.
  """
  if _is_seal(name):
    return 3, _step_of(name)
  if _step_of(name) is not None:
    return 0, 0
  return (2 if name == METRICS_FILE else 1), 0


def _progress(sizes: dict[str, int]) -> tuple[int, int]:
  """Returns the newest complete step and the bytes of recorded metrics."""
  newest = max(_complete_steps(sizes), default=-1)
  return newest, sizes.get(METRICS_FILE, -1)


def _reason(error: Exception) -> str:
  return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
