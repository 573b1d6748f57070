"""States of runs whose layers are scanned, for runs that loop, and back."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import tempfile
from typing import Any

from etils import epath

from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints.step_folders import is_bucket
from transformer_zoo.training.sharding import placement

_MOMENTS = "opt_state/"


def restore(folder: str | os.PathLike[str], abstract_state: Any) -> Any:
  """Restores a state whose layers were stacked otherwise.

  Every process reads every array whole, one after the other, from a bucket by
  a temporary copy of the checkpoint.

  Args:
    folder: The folder of the step, local or at gs://.
    abstract_state: The shapes, dtypes and shardings of the state.

  Raises:
    UserError: the checkpoint holds other arrays.
  """
  with _local(folder) as copy:
    return _restore(copy, abstract_state)


@contextlib.contextmanager
def _local(folder: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
  if not is_bucket(folder):
    yield pathlib.Path(folder)
    return
  folder = epath.Path(folder)
  with tempfile.TemporaryDirectory() as place:
    for name in checksums.sizes(folder):
      copy = epath.Path(place) / name
      copy.parent.mkdir(parents=True, exist_ok=True)
      (folder / name).copy(copy)
    yield pathlib.Path(place)


def _restore(folder: pathlib.Path, abstract_state: Any) -> Any:
  from transformer_zoo.tensors import orbax_checkpoints

  tensors = orbax_checkpoints.open_checkpoint(folder)
  there = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
  wanted = placement.shapes(abstract_state)
  different = [
    name
    for name in sorted(there.keys() | wanted.keys())
    if there.get(name) != wanted.get(name)
  ]
  if not different:
    return placement.place(tensors, abstract_state)
  name = different[0]
  if all(name.startswith(_MOMENTS) for name in different):
    # Scanned layers all have moments, looped ones where they are trained.
    raise UserError(
      "the moments of a stack that is trained in part lie as SCAN_LAYERS was, "
      f"so bind it as it was; {name} differs"
    )
  raise UserError(
    f"{name} is {there.get(name, 'not there')} instead of "
    f"{wanted.get(name, 'nothing')}"
  )
