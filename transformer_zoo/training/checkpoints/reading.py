"""Checkpoints on disk: found, verified and read by any program.

`run_checkpoints.py` writes them.
"""

import functools
import os
import pathlib
import sys
from typing import Any

import jax
import orbax.checkpoint as ocp

from transformer_zoo import errors
from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import checksums

RESULT = {
  "best_step": schemas.Required((int, None)),
  "step": schemas.Required(int),
}


class NoCheckpointError(UserError):
  """A path holds no checkpoint of a run."""


class DamagedCheckpointError(UserError):
  """A file of a checkpoint is missing, unreadable or changed."""


def resolve(path: str | os.PathLike[str]) -> pathlib.Path:
  """Finds the checkpoint that a user's path refers to.

  Args:
    path: The folder of a step, a folder of checkpoints, or a run folder. Of
      several steps the best of a finished run is taken, otherwise the newest.
      A missing best checkpoint is reported.

  Raises:
    NoCheckpointError: there is no checkpoint.
    UserError: the result of the run, which names its best step, is damaged.
  """
  path = pathlib.Path(path).absolute()
  if (path / "state").is_dir():
    return path
  run = _run_of(path)
  found = steps(path)
  result = run / "result.json"
  best = read_json(result, RESULT)["best_step"] if result.exists() else None
  if best is not None and best not in found:
    _report_gone(run, best, max(found))
  return found.get(best, found[max(found)])


def read_json(path: pathlib.Path, schema: schemas.Schema) -> dict[str, Any]:
  """Reads a JSON file of a run folder.

  Args:
    path: The path of the file.
    schema: The schema of its table.

  Raises:
    UserError: The file is damaged.
  """
  try:
    return schemas.read(path, schema)
  except UserError as error:
    raise UserError(
      f"{str(path)!r} is damaged ({error}); bring back a whole copy of it"
    ) from error


@functools.cache  # Once, however often a command resolves the path.
def _report_gone(run: pathlib.Path, best: int, newest: int) -> None:
  print(
    f"step {best}, the best of {str(run)!r}, has no checkpoint; the newest, "
    f"of step {newest}, is taken",
    file=sys.stderr,
  )


def steps(path: str | os.PathLike[str]) -> dict[int, pathlib.Path]:
  """Finds the checkpoints of a run: step -> folder, ascending.

  Args:
    path: A run folder, or its folder of checkpoints.

  Raises:
    NoCheckpointError: there is no checkpoint.
  """
  path = pathlib.Path(path).absolute()
  found = {
    int(entry.name): entry
    for entry in (_run_of(path) / "checkpoints").glob("*")
    if entry.name.isdigit() and (entry / "state").is_dir()
  }
  if not found:
    raise NoCheckpointError(
      f"no checkpoint in {str(path)!r}; give a run folder, or the folder of "
      "one step in its checkpoints/"
    )
  return dict(sorted(found.items()))


def run_of(step: pathlib.Path) -> pathlib.Path:
  """Returns the run folder of a step, or the parent of one outside a run."""
  return _run_of(step.parent)


def unusable(path: str | os.PathLike[str]) -> dict[str, str]:
  """Finds the damaged checkpoints of a run: folder name -> a sentence.

  Args:
    path: A run folder, or its folder of checkpoints.
  """
  reasons = {}
  folder = _run_of(pathlib.Path(path).absolute()) / "checkpoints"
  for entry in sorted(folder.glob("*")):
    if entry.name.endswith(".damaged"):
      reasons[entry.name] = f"{str(entry)!r} was put aside as damaged"
    elif entry.name.isdigit() and not (entry / "state").is_dir():
      reasons[entry.name] = f"checkpoint {str(entry)!r} is damaged: no state/"
  return reasons


def verify(path: pathlib.Path) -> None:
  """Compares the files of a step with their checksums.

  Raises:
    DamagedCheckpointError: a file is missing or has changed.
  """
  try:
    checksums.verify(path)
  except ValueError as error:
    raise DamagedCheckpointError(
      f"checkpoint {str(path)!r} is damaged: {error}"
    ) from error


def has_layout(path: pathlib.Path, abstract_params) -> bool:
  """Returns True if a step holds these parameters in the same layout."""
  # The handler's own method, because the checkpointer's also looks for a file
  # one folder higher, and warns if it is missing.
  there = ocp.PyTreeCheckpointHandler().metadata(path / "state").tree
  return _shapes(there["params"]) == _shapes(abstract_params)


def restore_params(path: pathlib.Path, abstract_params) -> Any:
  """Restores parameters alone.

  Args:
    path: The folder of a step.
    abstract_params: The shapes, dtypes and shardings of the parameters, in the
      layout of the step.

  Raises:
    DamagedCheckpointError: a file cannot be read.
  """
  try:
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
      restored = checkpointer.restore(
        path / "state",
        args=ocp.args.PyTreeRestore(
          item={"params": abstract_params},
          restore_args=ocp.checkpoint_utils.construct_restore_args(
            {"params": abstract_params}
          ),
          partial_restore=True,
        ),
      )
  except Exception as error:  # Orbax raises many kinds for a bad file.
    raise DamagedCheckpointError(
      f"checkpoint {str(path)!r} is damaged: {errors.reason_of(error)}"
    ) from error
  return restored["params"]


def _run_of(path: pathlib.Path) -> pathlib.Path:
  return path.parent if path.name == "checkpoints" else path


def _shapes(tree) -> dict[str, tuple[int, ...]]:
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): tuple(leaf.shape)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }
