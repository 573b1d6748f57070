"""The target of `zoo convert`: room on the disk, and a folder that is whole."""

from collections.abc import Iterator, Sequence
import contextlib
import math
import pathlib
import shutil

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.processes import claims
from transformer_zoo.tensors.lazy_tensors import Tensor

_WHOLE = "whole"


def check_room(
  target: pathlib.Path, tensors: Sequence[Tensor], dtype: np.dtype
) -> None:
  """Compares the size of a target with the free room on its disk.

  Args:
    target: The folder that will be written; it need not exist.
    tensors: All tensors of the target.
    dtype: The type that their numbers are written in.

  Raises:
    UserError: The disk has too little room.
  """
  needed = sum(math.prod(t.shape) * dtype.itemsize for t in tensors)
  folder = target.absolute().parent
  while not folder.exists():
    folder = folder.parent
  free = shutil.disk_usage(folder).free
  if needed > free:
    raise UserError(
      f"{str(target)!r} needs {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB "
      "are free there; choose another disk"
    )


def check_absent(target: pathlib.Path) -> None:
  """Refuses a target that exists.

  Raises:
    UserError: There is a folder, a file or a link of that name.
  """
  if target.exists() or target.is_symlink():
    raise UserError(
      f"{str(target)!r} is there already; name another folder, or remove it"
    )


@contextlib.contextmanager
def written_aside(target: pathlib.Path) -> Iterator[pathlib.Path]:
  """A folder that becomes `target` when it is whole, and is removed otherwise.

  Args:
    target: The folder to write, which does not exist yet. Files that a killed
      process left in `TARGET.partial` are removed; no link is followed there.

  Raises:
    UserError: Another process writes the same target, the target exists,
      perhaps since this process began, or `TARGET.partial` is no folder.
  """
  aside = target.with_name(f"{target.name}.partial")
  if aside.is_symlink() or (aside.exists() and not aside.is_dir()):
    raise UserError(
      f"{str(target)!r} is written in {str(aside)!r} first, which is a link or "
      "a file and not a folder; remove it, or name another target"
    )
  with contextlib.ExitStack() as stack:
    is_ours = True
    # Without locks, as on a mounted bucket, two conversions are not noticed.
    with contextlib.suppress(claims.NoLocksError):
      is_ours = stack.enter_context(claims.claim(aside))
    if not is_ours:
      raise UserError(
        f"another conversion writes {str(target)!r} ({claims.owner(aside)}); "
        "name another folder, or wait for it"
      )
    whole = aside / _WHOLE
    _remove(whole)
    try:
      check_absent(target)
      yield whole
      check_absent(target)
      _move(whole, target)
    finally:
      _remove(whole)
      with contextlib.suppress(OSError):  # Something of the user's is in it.
        (aside / claims.CLAIM_FILE).unlink()
        aside.rmdir()


def _remove(whole: pathlib.Path) -> None:
  """Removes the folder, or the link of its name and not what it points to."""
  if whole.is_symlink() or whole.is_file():
    whole.unlink()
  shutil.rmtree(whole, ignore_errors=True)


def _move(whole: pathlib.Path, target: pathlib.Path) -> None:
  try:
    whole.rename(target)
  except OSError:  # It came between the question and the answer.
    check_absent(target)
    raise
