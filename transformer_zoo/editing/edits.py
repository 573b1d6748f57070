"""Edits: what is added to matrices of one model, as a small file.

The file holds for each kernel the pairs of vectors whose products are added to
it; the checksums of the kernel before and after; and, compressed, the bits by
which (W + u v^T) - u v^T differs from W in float32, so that the edit comes off
bit for bit.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any
import zipfile
import zlib

from flax import traverse_util
import numpy as np

from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError

_FORMAT = 2


@dataclasses.dataclass(frozen=True)
class Edit:
  """The change of one kernel [F, D].

  Attributes:
    path: The name of the kernel, its layer by itself:
      `decoder/layers_17/mlp/wo/kernel`.
    left_FX: The factors along the inputs, [F, X] float32; X is the rank, 1 for
      ROME.
    right_XD: The factors along the outputs, [X, D] float32.
    before: The SHA-256 of the kernel that it is made for.
    after: That of the kernel with the edit.
    rounding: The compressed bits that subtraction does not restore.
    notes: What was edited and how, JSON values.
  """

  path: str
  left_FX: np.ndarray
  right_XD: np.ndarray
  before: str
  after: str
  rounding: bytes
  notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @classmethod
  def make(
    cls,
    path: str,
    kernel_FD: np.ndarray,
    left_FX: np.ndarray,
    right_XD: np.ndarray,
    notes: Mapping[str, Any] | None = None,
  ) -> "Edit":
    """Makes the edit of a kernel."""
    left_FX, right_XD = (
      np.ascontiguousarray(x, np.float32) for x in (left_FX, right_XD)
    )
    kernel_FD = np.ascontiguousarray(kernel_FD, np.float32)
    added_FD = _product(left_FX, right_XD)
    edited_FD = kernel_FD + added_FD
    bits = (edited_FD - added_FD).view(np.uint32) ^ kernel_FD.view(np.uint32)
    # The bytes of one weight apart: the high ones are nearly always 0.
    planes = np.ascontiguousarray(bits.view(np.uint8).reshape(-1, 4).T)
    return cls(
      path,
      left_FX,
      right_XD,
      before=_checksum(kernel_FD),
      after=_checksum(edited_FD),
      rounding=zlib.compress(planes.tobytes(), 9),
      notes=dict(notes or {}),
    )

  @property
  def delta_FD(self) -> np.ndarray:
    """The matrix that is added."""
    return _product(self.left_FX, self.right_XD)

  def apply(self, params: Any) -> Any:
    """Returns parameters with the edit.

    Args:
      params: The parameters, nested, of looped or scanned layers.

    Raises:
      UserError: The kernel is not there, or not the one it is made for.
    """
    kernel_FD = kernel_of(params, self.path)
    self._check(kernel_FD, self.before, "made for", self.after, "there already")
    return with_kernel(params, self.path, kernel_FD + self.delta_FD)

  def remove(self, params: Any) -> Any:
    """Returns parameters as they were before the edit, bit for bit.

    Raises:
      UserError: The edit is not the last one of the kernel.
    """
    kernel_FD = kernel_of(params, self.path)
    self._check(
      kernel_FD, self.after, "the last one of", self.before, "not there"
    )
    planes = np.frombuffer(zlib.decompress(self.rounding), np.uint8)
    bits = np.ascontiguousarray(planes.reshape(4, -1).T).view(np.uint32)
    restored = (kernel_FD - self.delta_FD).view(np.uint32)
    restored = (restored ^ bits.reshape(kernel_FD.shape)).view(np.float32)
    return with_kernel(params, self.path, restored)

  def _check(self, kernel_FD, expected, relation, other, state) -> None:
    if kernel_FD.shape != (self.left_FX.shape[0], self.right_XD.shape[1]):
      raise UserError(
        f"{self.path} is {kernel_FD.shape} here, and the edit changes one of "
        f"{(self.left_FX.shape[0], self.right_XD.shape[1])}; name the "
        "checkpoint that it was made for"
      )
    found = _checksum(kernel_FD)
    if found == expected:
      return
    if found == other:
      raise UserError(f"the edit of {self.path} is {state} in this checkpoint")
    raise UserError(
      f"the edit is not {relation} this {self.path}: its checksum is "
      f"{found[:12]} instead of {expected[:12]}; edits come off in the reverse "
      "of their order, from the checkpoint that they were made for"
    )


def save(path: str | os.PathLike[str], made: Sequence[Edit]) -> None:
  """Writes edits of one checkpoint into a file, an .npz."""
  described, arrays = [], {}
  for number, edit in enumerate(made):
    described.append(
      {
        "path": edit.path,
        "before": edit.before,
        "after": edit.after,
        "notes": edit.notes,
      }
    )
    arrays[f"left_{number}"] = edit.left_FX
    arrays[f"right_{number}"] = edit.right_XD
    arrays[f"rounding_{number}"] = np.frombuffer(edit.rounding, np.uint8)
  description = json.dumps(
    {"format": _FORMAT, "edits": described}, ensure_ascii=False
  )
  with open(path, "wb") as file:
    np.savez(file, description=np.array(description), **arrays)


def load(path: str | os.PathLike[str]) -> list[Edit]:
  """Reads a file that `save` has written.

  Raises:
    UserError: It is no such file.
  """
  if not pathlib.Path(path).is_file():
    raise UserError(f"there is no edit {str(path)!r}; `zoo edit` writes one")
  try:
    with np.load(path) as found:
      description = json.loads(str(found["description"]))
      return [
        Edit(
          described["path"],
          found[f"left_{number}"],
          found[f"right_{number}"],
          described["before"],
          described["after"],
          found[f"rounding_{number}"].tobytes(),
          described["notes"],
        )
        for number, described in enumerate(description["edits"])
      ]
  except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
    raise UserError(
      f"{str(path)!r} is no edit ({error}); `zoo edit` writes one"
    ) from None


def kernel_of(params: Any, path: str) -> np.ndarray:
  """Returns a kernel by its name with its layer by itself, float32.

  Raises:
    UserError: There is none.
  """
  flat = traverse_util.flatten_dict(params, sep="/")
  key, layer = _place(flat, path)
  kernel = np.asarray(flat[key], np.float32)
  return np.array(kernel if layer is None else kernel[layer])


def with_kernel(params: Any, path: str, kernel_FD: np.ndarray) -> Any:
  """Returns parameters with another kernel of that name."""
  flat = dict(traverse_util.flatten_dict(params, sep="/"))
  key, layer = _place(flat, path)
  if layer is not None:
    stacked = np.array(flat[key])
    stacked[layer] = kernel_FD
    kernel_FD = stacked
  flat[key] = kernel_FD
  return traverse_util.unflatten_dict(flat, sep="/")


def _place(flat: Mapping[str, Any], path: str) -> tuple[str, int | None]:
  """The name of an array, and the layer in it where layers are stacked."""
  if path in flat:
    return path, None
  for name, array in flat.items():
    names = parameter_names.names_in(name, array.shape)
    if path in names:
      return name, names.index(path)
  raise UserError(
    f"the model has no {path}; `zoo inspect model` lists its parameters"
  )


def _product(left_FX: np.ndarray, right_XD: np.ndarray) -> np.ndarray:
  """The sum of outer products, in an order that no library changes."""
  total = np.zeros((len(left_FX), right_XD.shape[1]), np.float32)
  for left_F, right_D in zip(left_FX.T, right_XD, strict=True):
    total += left_F[:, None] * right_D[None]
  return total


def _checksum(kernel_FD: np.ndarray) -> str:
  return hashlib.sha256(np.ascontiguousarray(kernel_FD).tobytes()).hexdigest()
