"""T5X checkpoints: parameters and Adafactor state, read and written.

What is read: versions 2 and 3 of the format of T5X `checkpoints.py`, and what
its trainer saves through Orbax, of its networks
`examples/{t5,scalable_t5,decoder_only}` and of Flaxformer's T5. What is
written: version 3. The format does not describe the architecture.
"""

from collections.abc import Mapping
import dataclasses
import functools
import os
import pathlib

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import adafactor
from transformer_zoo.interop.t5x import index as t5x_index
from transformer_zoo.interop.t5x import links as t5x_links
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import to_ours
from transformer_zoo.tensors.links import to_theirs

TARGET = "target/"
STEP = "state/step"


@dataclasses.dataclass(frozen=True)
class T5XCheckpoint:
  """A checkpoint of T5X, whose tensors are read when they are asked for.

  Attributes:
    folder: `checkpoint_<step>`, which `open_checkpoint` opens again.
    tensors: all arrays and numbers of it, by their names in T5X's train state:
      `target/decoder/decoder_norm/scale`.
  """

  folder: pathlib.Path
  tensors: Mapping[str, Tensor]

  @property
  def step(self) -> int:
    """Steps made; 0 where it does not say."""
    return int(self.tensors[STEP].read()) if STEP in self.tensors else 0

  @property
  def has_optimizer_state(self) -> bool:
    """Whether there is more of the optimizer than its step."""
    return any(name.startswith(adafactor.STATES) for name in self.tensors)

  def parameters(self) -> dict[str, Tensor]:
    """Our parameters, layers unstacked.

    Raises:
      UserError: a tensor is no parameter of a network that is known here.
    """
    known = (TARGET, "state/")
    for name in self.tensors:
      if not name.startswith(known):
        raise UserError(
          f"the T5X checkpoint in {str(self.folder)!r} holds {name!r}, which "
          "is neither a parameter nor of the optimizer"
        )
    links = [p.link(TARGET) for p in self._parameters]
    return to_ours(links, self.tensors)

  def moments(self) -> dict[str, Tensor]:
    """Adafactor's second moments: `<parameter>/v_row` and `v_col`, or `v`.

    `v_row` are the means over the last axis of our parameter, `v_col` over the
    first, whatever the shape, as `training.adafactor` keeps them.

    Raises:
      UserError: they are not what Adafactor keeps here.
    """
    return adafactor.read(self._parameters, self.tensors)

  @functools.cached_property
  def _parameters(self) -> list[t5x_links.Parameter]:
    return t5x_links.of_theirs(
      {
        name.removeprefix(TARGET): tensor.shape
        for name, tensor in self.tensors.items()
        if name.startswith(TARGET)
      }
    )


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
  """Whether a path is a checkpoint of T5X, or a folder of several."""
  return t5x_index.find(path) is not None


def open_checkpoint(path: str | os.PathLike[str]) -> T5XCheckpoint:
  """Opens a checkpoint.

  Args:
    path: The folder `checkpoint_<step>`, the file `checkpoint` in it, or a
      folder of several checkpoints, of which the newest is opened.

  Raises:
    UserError: there is none, or it is damaged.
  """
  index = t5x_index.find(path)
  if index is None:
    raise UserError(
      f"no T5X checkpoint in {str(path)!r}; give a folder `checkpoint_<step>` "
      "with a file `checkpoint`"
    )
  # What Orbax and older trainers save lies in `state` of the checkpoint.
  inside = index.parent.name == "state"
  folder = index.parent.parent if inside else index.parent
  return T5XCheckpoint(folder, t5x_index.read(index))


def write_checkpoint(
  folder: str | os.PathLike[str],
  parameters: Mapping[str, Tensor],
  *,
  step: int = 0,
  moments: Mapping[str, Tensor] | None = None,
  scanned: bool = False,
) -> pathlib.Path:
  """Writes a checkpoint that T5X restores, one tensor in memory at a time.

  Args:
    folder: The folder that receives `checkpoint_<step>`, T5X's `MODEL_DIR`.
    parameters: ours, layers unstacked.
    step: steps made.
    moments: Adafactor's, named as `T5XCheckpoint.moments` names them; None for
      a checkpoint without an optimizer's state, which T5X evaluates and, with
      `fallback_to_scratch` and an `assignment_map`, trains.
    scanned: whether for T5X's `examples/scalable_t5`, whose layers are stacked.

  Returns:
    The checkpoint's folder.

  Raises:
    UserError: there is one already, or it cannot be written so.
  """
  theirs = _theirs(parameters, scanned)
  arrays = to_theirs([p.link(TARGET) for p in theirs], parameters)
  values = {STEP: Tensor.of(np.asarray(step, np.int32))}
  if moments is not None:
    whole, factors = adafactor.write(theirs, moments)
    arrays |= whole
    values |= factors
  written = pathlib.Path(folder).absolute() / f"checkpoint_{step}"
  t5x_index.write(written, arrays, values)
  return written


def misfit(
  parameters: Mapping[str, Tensor],
  moments: Mapping[str, Tensor],
  *,
  scanned: bool = False,
) -> str:
  """Tells why T5X would not take these moments, or ""; reads none.

  Args:
    parameters: Our parameters, layers unstacked; see `write_checkpoint`.
    moments: The moments of Adafactor; see `write_checkpoint`.
    scanned: Whether T5X's network scans its layers; see `write_checkpoint`.

  Raises:
    UserError: the parameters cannot be written so.
  """
  theirs = _theirs(parameters, scanned)
  try:
    adafactor.write(theirs, moments)
  except UserError as error:
    return str(error)
  return ""


def _theirs(
  parameters: Mapping[str, Tensor], scanned: bool
) -> list[t5x_links.Parameter]:
  shapes = {name: tensor.shape for name, tensor in parameters.items()}
  return t5x_links.of_ours(shapes, scanned=scanned)
