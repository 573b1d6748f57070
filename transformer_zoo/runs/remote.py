"""Run folders in other places: `gs://`, `s3://`, any URL that fsspec knows.

A run works in a folder of its machine. A thread copies what changes there to
the URL; a run that finds more at the URL than in the folder, as on a machine
that is new, fetches it first. Several processes write checkpoints to `gs://`
and `s3://` themselves, each its part; all else is copied as ever.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import functools
import os
import pathlib
import shutil
from typing import Any
import urllib.parse

import jax

from transformer_zoo.errors import UserError
from transformer_zoo.runs.mirror import Mirror
from transformer_zoo.training import agreement
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST

FOLDER = pathlib.Path("runs", "mirrored")
# Apart: to fetch what is at a URL empties the folder that it goes to.
FETCHED = pathlib.Path("runs", "fetched")
# Where Orbax writes by itself, every process its own part.
_DIRECT = ("gs://", "s3://")


def is_url(path: str | os.PathLike[str]) -> bool:
  """Whether a path names another place than a folder of this machine."""
  return "://" in str(path)


def at_any_place(train: Callable[..., str]) -> Callable[..., str]:
  """Lets a function that works in the folder `model_dir` take a URL for it."""

  @functools.wraps(train)
  def run(*, model_dir: str, **arguments: Any) -> str:
    if is_url(model_dir) and _is_direct(model_dir):
      options = arguments.get("checkpointing", KEEP_NEWEST_AND_BEST)
      arguments["checkpointing"] = dataclasses.replace(
        options, folder=f"{model_dir}/checkpoints"
      )
    with opened(model_dir) as folder:
      return train(model_dir=str(folder), **arguments)

  return run


@contextlib.contextmanager
def opened(model_dir: str) -> Iterator[pathlib.Path]:
  """The folder of this machine that stands for a folder or a URL.

  Every process has one; the first process's is what is copied, and the others
  begin with the same files.

  Args:
    model_dir: either. What is at a URL is fetched, and what comes to be in the
      folder is copied there, meanwhile and at the end.

  Raises:
    UserError: there is no such place, or nothing can be written there.
  """
  if not is_url(model_dir):
    yield pathlib.Path(model_dir)
    return
  mirror = Mirror(
    model_dir,
    _folder_for(model_dir, FOLDER),
    with_checkpoints=not _is_direct(model_dir),
  )
  if jax.process_index():
    agreement.wait("run folder")
    shutil.rmtree(mirror.folder, ignore_errors=True)
    mirror.fetch()
    yield mirror.folder
    return
  mirror.fetch()
  mirror.copy()
  agreement.wait("run folder")
  mirror.start()
  try:
    yield mirror.folder
  except BaseException:
    # What ended the run is told, and the copy tried nevertheless.
    mirror.stop(must=False)
    raise
  mirror.stop()


def _is_direct(url: str) -> bool:
  """Whether the processes write checkpoints to a URL without a copy here.

  Raises:
    UserError: there are several, and they cannot.
  """
  if jax.process_count() == 1:
    return False
  if url.startswith(_DIRECT):
    # The library of paths below Orbax would import TensorFlow.
    os.environ.setdefault("EPATH_USE_TF", "false")
    return True
  raise UserError(
    f"{jax.process_count()} processes cannot write to {url!r} together: give "
    f"one of {', '.join(_DIRECT)} or a folder that all of them see"
  )


def is_of_url(folder: pathlib.Path) -> bool:
  """Whether a run folder stands for a URL: every process has its own."""
  return folder.parent == FOLDER


def name_of(folder: pathlib.Path) -> str:
  """Where a run lies, as every machine calls it: its URL, or a whole path."""
  if is_of_url(folder):
    return urllib.parse.unquote(folder.name)
  return os.path.abspath(folder)


def _folder_for(url: str, parent: pathlib.Path) -> pathlib.Path:
  name = urllib.parse.quote(url, safe="")
  index = jax.process_index()
  return parent / (f"{name}.{index}" if index else name)


def fetched(path: str | os.PathLike[str]) -> pathlib.Path:
  """The folder of a path, or one with what is at a URL now.

  Raises:
    UserError: there is no such place.
  """
  if not is_url(path):
    return pathlib.Path(path)
  mirror = Mirror(str(path), _folder_for(str(path), FETCHED))
  mirror.fetch()
  return mirror.folder
