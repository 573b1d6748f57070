"""Where `zoo convert` writes: enough room, and a folder that is whole."""

from collections.abc import Iterator, Sequence
import contextlib
import math
import pathlib
import shutil

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors.lazy_tensors import Tensor
from transformer_zoo.processes import claims

_WHOLE = "whole"


def check_room(
  target: pathlib.Path, tensors: Sequence[Tensor], dtype: np.dtype
) -> None:
  """Compares what is written with what is free.

  Args:
    target: which need not exist.
    tensors: all that go there.
    dtype: as which they are written.

  Raises:
    UserError: the disk has too little room.
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
  """Refuses a target that is there.

  Raises:
    UserError: it is.
  """
  if target.exists() or target.is_symlink():
    raise UserError(
      f"{str(target)!r} is there already; name another folder, or remove it"
    )


@contextlib.contextmanager
def written_aside(target: pathlib.Path) -> Iterator[pathlib.Path]:
  """A folder that becomes `target` when it is whole, and goes otherwise.

  Args:
    target: does not exist yet. What a killed process left beside it goes.

  Raises:
    UserError: another process writes the same target, or it is there, perhaps
      since this one began.
  """
  aside = target.with_name(f"{target.name}.partial")
  with contextlib.ExitStack() as stack:
    is_ours = True
    # Who converts to a bucket mounted without locks has to see to it alone.
    with contextlib.suppress(claims.NoLocksError):
      is_ours = stack.enter_context(claims.claim(aside))
    if not is_ours:
      raise UserError(
        f"another conversion writes {str(target)!r} ({claims.owner(aside)}); "
        "name another folder, or wait for it"
      )
    whole = aside / _WHOLE
    shutil.rmtree(whole, ignore_errors=True)
    try:
      check_absent(target)
      yield whole
      check_absent(target)
      _move(whole, target)
    finally:
      shutil.rmtree(whole, ignore_errors=True)
      with contextlib.suppress(OSError):  # Something of the user's is in it.
        (aside / claims.CLAIM_FILE).unlink()
        aside.rmdir()


def _move(whole: pathlib.Path, target: pathlib.Path) -> None:
  try:
    whole.rename(target)
  except OSError:  # It came between the question and the answer.
    check_absent(target)
    raise
