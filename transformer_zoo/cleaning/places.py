"""Files and folders, on the local disk or any file system of Beam."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import os
from typing import TypeVar
import uuid

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from transformer_zoo.errors import UserError

T = TypeVar("T")


def find(patterns: Sequence[str]) -> list[str]:
  """Returns the files that patterns stand for, each once, in order.

  Raises:
    UserError: a pattern stands for no file.
  """
  found = set()
  for pattern in patterns:
    try:
      (match,) = FileSystems.match([pattern])
    except (BeamIOError, ValueError) as error:
      raise UserError(
        f"The files {pattern!r} cannot be looked for: {error}"
      ) from error
    if not match.metadata_list:
      raise UserError(f"No file is {pattern!r}.")
    found.update(file.path for file in match.metadata_list)
  return sorted(found)


def read(path: str, parse: Callable[[str, str], T]) -> T:
  """Returns what `parse` makes of the text of a file and its path.

  Raises:
    UserError: there is no such file, or it is not UTF-8.
  """
  (path,) = find([path])
  with FileSystems.open(path) as file:
    content = file.read()
  try:
    return parse(content.decode(), path)
  except UnicodeDecodeError as error:
    raise UserError(f"The list {path!r} is not UTF-8 text.") from error


def write(path: str, content: str) -> None:
  """Writes a text file."""
  with FileSystems.create(path) as file:
    file.write(content.encode())


@contextlib.contextmanager
def appearing(folder: str) -> Iterator[str]:
  """A folder to work in, whose `output` becomes `folder` if all goes well.

  Raises:
    UserError: `folder` is a file, something is in it, or it cannot be made.
  """
  folder = folder.rstrip("/")
  if not _is_free(folder):
    raise UserError(
      f"The output folder {folder!r} is not empty; name another one."
    )
  work = f"{folder}.partial-{uuid.uuid4().hex[:8]}"
  try:
    FileSystems.mkdirs(f"{work}/output")
  except OSError as error:
    raise UserError(
      f"The output folder {folder!r} cannot be made: {error}."
    ) from error
  try:
    yield work
  except BaseException:
    FileSystems.delete([work])
    raise
  if not _is_free(folder):
    raise UserError(
      f"The output folder {folder!r} has been filled meanwhile; the result is "
      f"in '{work}/output'."
    )
  if os.path.isdir(folder):
    os.rmdir(folder)
  FileSystems.rename([f"{work}/output"], [folder])
  FileSystems.delete([work])


def _is_free(folder: str) -> bool:
  """Whether there is nothing of this name, or a local folder that is empty."""
  if os.path.isdir(folder):
    return not os.listdir(folder)
  (inside,) = FileSystems.match([f"{folder}/*"])
  return not FileSystems.exists(folder) and not inside.metadata_list
