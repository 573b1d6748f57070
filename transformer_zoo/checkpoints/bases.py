"""Bases of runs that train and save a part of a model.

A checkpoint of such a run holds what is trained, with its optimizer state, and
what its base has not. `base.json` in the run folder says where the other
parameters are: the path of the base, an identity of its files, and the name in
it of every parameter that is read from it. A teacher is a base of training
alone, described in `teacher.json`: the student's checkpoints are whole.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import contextvars
import dataclasses
import json
import os
import pathlib
from typing import Any

from flax import traverse_util

from transformer_zoo import parameter_names
from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.tensors import rounding
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints import reading
from transformer_zoo.training.state import TrainState

FILE = "base.json"
TEACHER = "teacher.json"
_SCHEMA = {
  "path": schemas.Required(str),
  "identity": schemas.Required(str),
  "parameters": schemas.Required({str: str}),
}
# Files that hold the parameters of a directory of another program.
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "flax_model*.msgpack")
_given = contextvars.ContextVar("path of the base", default=None)


@contextlib.contextmanager
def found_at(path: str | os.PathLike[str] | None) -> Iterator[None]:
  """Makes runs that are opened inside look for their base at a path.

  Args:
    path: The path of the base; None for that in `base.json`.
  """
  token = _given.set(path)
  try:
    yield
  finally:
    _given.reset(token)


@dataclasses.dataclass(frozen=True)
class Base:
  """The checkpoint that completes the checkpoints of a run.

  Attributes:
    path: The path of the checkpoint.
    identity: A text that changes with its files.
    parameters: The names in it by the names in the run, layer by layer.
  """

  path: str
  identity: str
  parameters: Mapping[str, str]

  @classmethod
  def of(cls, source: Any, assignment: Any, file: str = FILE) -> "Base":
    """Describes an initial checkpoint as the base of a run.

    Args:
      source: The open checkpoint (`checkpoint_sources.Source`).
      assignment: The source of each parameter of the run (`Assignment`). What
        begins anew, or has other rows or values than there, is the run's own.
      file: The file that will describe it; `TEACHER` if the teacher alone is
        not the run's own.
    """
    names = {id(tensor): name for name, tensor in source.tensors.items()}
    found = {
      name: names[id(tensor)]
      for name, tensor in (
        (rounding.kernel_of(name), rounding.original(tensor))
        for name, tensor in assignment.tensors.items()
      )
      if id(tensor) in names and name not in assignment.resized
      if file == FILE or parameter_names.head_of(name) == "teacher"
    }
    return cls(str(source.path), identity(source.path), found)

  @classmethod
  def of_run(cls, folder: pathlib.Path, file: str = FILE) -> "Base | None":
    """The base of a run; None if its checkpoints are whole.

    Args:
      folder: The folder of the run.
      file: The file that describes it.

    Raises:
      UserError: Its description is damaged.
    """
    path = folder / file
    if not path.is_file():
      return None
    content = reading.read_json(path, _SCHEMA)
    return cls(**{name: content[name] for name in _SCHEMA})

  def write(self, folder: pathlib.Path, file: str = FILE) -> None:
    """Writes the file, or compares it with that of a run that resumes.

    Args:
      folder: The folder of the run.
      file: The file that describes the base.

    Raises:
      UserError: The run began on another base.
    """
    before = Base.of_run(folder, file)
    if before is not None and before.identity != self.identity:
      raise UserError(
        f"the run in {str(folder)!r} began with {before.path!r}, which "
        f"has changed, or INITIAL_CHECKPOINT_PATH names another checkpoint, "
        f"{self.path!r}; restore that one, or choose another MODEL_DIR"
      )
    text = json.dumps(dataclasses.asdict(self), indent=0)
    (folder / file).write_text(text + "\n", encoding="utf-8")

  def opened(
    self, folder: pathlib.Path, open_source: Callable[[str], Any]
  ) -> Any:
    """Opens the base.

    Args:
      folder: The folder of the run, for errors.
      open_source: Opens a checkpoint (`checkpoint_sources.open_source`).

    Raises:
      UserError: The base is not there, or has changed.
    """
    path = _given.get() or self.path
    with found_at(None):  # A base may have one itself, somewhere else.
      if not pathlib.Path(path).exists():
        raise UserError(
          f"the checkpoints in {str(folder)!r} hold what was trained alone, "
          f"and their base {str(path)!r} is not there; say where it is: "
          f"--checkpoint BASE --adapter NAME={folder}"
        )
      source = open_source(path)
    if identity(source.path) != self.identity:
      raise UserError(
        f"{str(source.path)!r} is not the base that {str(folder)!r} was "
        "trained on, or has changed since; together they would compute "
        "something else"
      )
    return source

  def tensors(
    self, folder: pathlib.Path, open_source: Callable[[str], Any]
  ) -> dict[str, Tensor]:
    """Opens the parameters that a run reads from its base, as `opened`."""
    source = self.opened(folder, open_source)
    there = {**source.spare, **source.tensors}
    return {ours: there[theirs] for ours, theirs in self.parameters.items()}

  def own(self, trainable: Trainable, params: Mapping) -> Mapping:
    """Returns the parameters that the run saves itself.

    Args:
      trainable: Says what it trains.
      params: Its parameters or their shapes.
    """
    flat = traverse_util.flatten_dict(params, sep="/")
    trained = traverse_util.flatten_dict(trainable.select(params), sep="/")

    def is_read(name: str) -> bool:
      names = parameter_names.names_in(name, flat[name].shape)
      return all(rounding.kernel_of(name) in self.parameters for name in names)

    return traverse_util.unflatten_dict(
      {
        name: leaf
        for name, leaf in flat.items()
        if name in trained or not is_read(name)
      },
      sep="/",
    )

  def saved(self, trainable: Trainable, state: TrainState) -> TrainState:
    """Returns the state with the parameters that `own` returns."""
    return state.replace(params=self.own(trainable, state.params))


def identity(path: str | os.PathLike[str]) -> str:
  """Returns a text that changes when the parameters of a checkpoint do.

  For a run that trains a part of a model it covers the base too.

  Args:
    path: The folder of a step, a directory or a T5X checkpoint.
  """
  path = pathlib.Path(path)
  weights = sorted(file for kind in _WEIGHTS for file in path.glob(kind))
  if weights:
    return " ".join(f"{checksums.of_file(file):08x}" for file in weights)
  before = Base.of_run(reading.run_of(path))
  found = checksums.identity(path)
  return f"{found} {before.identity}" if before else found
