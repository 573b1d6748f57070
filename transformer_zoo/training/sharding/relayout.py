"""States of runs whose layers are scanned, for runs that loop, and back."""

import os
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.training.sharding import placement

_MOMENTS = "opt_state/"


def restore(folder: str | os.PathLike[str], abstract_state: Any) -> Any:
  """Restores a state whose layers were stacked otherwise.

  Arrays are read one after the other, whole, by every process.

  Args:
    folder: of the step.
    abstract_state: shapes, dtypes and shardings of the state.

  Raises:
    UserError: it holds other arrays.
  """
  from transformer_zoo.interop.tensors import orbax_checkpoints

  if "://" in str(folder):
    raise UserError(
      "its layers are scanned otherwise, and at a URL they are not taken apart;"
      " copy the run to a folder or bind SCAN_LAYERS as it was"
    )
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
