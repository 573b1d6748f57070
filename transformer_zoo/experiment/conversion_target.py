"""Where `zoo convert` writes: enough room, and a folder that is whole."""

from collections.abc import Iterator, Sequence
import contextlib
import math
import pathlib
import shutil

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors import Tensor


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


@contextlib.contextmanager
def written_aside(target: pathlib.Path) -> Iterator[pathlib.Path]:
  """A folder that becomes `target` when it is whole, and goes otherwise."""
  aside = target.with_name(f"{target.name}.partial")
  shutil.rmtree(aside, ignore_errors=True)
  try:
    yield aside
    aside.rename(target)
  finally:
    shutil.rmtree(aside, ignore_errors=True)
