"""Checkpoints on disk: found, verified, read.

`run_checkpoints.py` writes them.
"""

import functools
import json
import os
import pathlib
import re
import sys
from typing import Any

import jax
import orbax.checkpoint as ocp

from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import checksums

_OS_ERROR = re.compile(r"os_error_code='(\d+)'")


class DamagedCheckpointError(UserError):
  """The files of a checkpoint are not those that were written."""


def reason_of(error: Exception) -> str:
  """What a library says of a file, in a few words."""
  text = str(error).strip()
  # TensorStore tells the number at the end of a long line.
  code = _OS_ERROR.search(text)
  number = int(code.group(1)) if code else getattr(error, "errno", None)
  if number:
    return os.strerror(number)
  return (text.splitlines() or [type(error).__name__])[0][:200]


def resolve(path: str | os.PathLike[str]) -> pathlib.Path:
  """Finds the checkpoint that a user's path means.

  Args:
    path: a step's folder, a folder of checkpoints, or a run folder; of several
      steps it is the best one of a finished run, else the newest. It is told
      where the best one is gone.

  Raises:
    UserError: there is none.
  """
  path = pathlib.Path(path).absolute()
  if (path / "state").is_dir():
    return path
  run = _run_of(path)
  found = steps(path)
  result = run / "result.json"
  best = (
    json.loads(result.read_text())["best_step"] if result.exists() else None
  )
  if best is not None and best not in found:
    _tell_gone(run, best, max(found))
  return found.get(best, found[max(found)])


@functools.cache  # Once, however often a command asks.
def _tell_gone(run: pathlib.Path, best: int, newest: int) -> None:
  print(
    f"step {best}, the best of {str(run)!r}, has no checkpoint; that of step "
    f"{newest}, the newest, is taken",
    file=sys.stderr,
  )


def steps(path: str | os.PathLike[str]) -> dict[int, pathlib.Path]:
  """Finds the checkpoints of a run: step -> folder, ascending.

  Args:
    path: a run folder, or its folder of checkpoints.

  Raises:
    UserError: there is none.
  """
  path = pathlib.Path(path).absolute()
  found = {
    int(entry.name): entry
    for entry in (_run_of(path) / "checkpoints").glob("*")
    if entry.name.isdigit() and (entry / "state").is_dir()
  }
  if not found:
    raise UserError(
      f"no checkpoint in {str(path)!r}; give a run folder, or the folder of "
      "one step in its checkpoints/"
    )
  return dict(sorted(found.items()))


def run_of(step: pathlib.Path) -> pathlib.Path:
  """The run folder of a step's folder; its parent where that stands alone."""
  return _run_of(step.parent)


def unusable(path: str | os.PathLike[str]) -> dict[str, str]:
  """Finds what cannot be restored of a run: name of the folder -> a sentence.

  Args:
    path: a run folder, or its folder of checkpoints.
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
    DamagedCheckpointError: its files are not those that were written.
  """
  try:
    checksums.verify(path)
  except ValueError as error:
    raise DamagedCheckpointError(
      f"checkpoint {str(path)!r} is damaged: {error}"
    ) from error


def has_layout(path: pathlib.Path, abstract_params) -> bool:
  """Whether a step holds exactly these parameters, scanned or looped alike."""
  # The handler's own: the checkpointer's also looks for, and warns of, a file
  # that lies one folder higher.
  there = ocp.PyTreeCheckpointHandler().metadata(path / "state").tree
  return _shapes(there["params"]) == _shapes(abstract_params)


def restore_params(path: pathlib.Path, abstract_params) -> Any:
  """Restores parameters alone.

  Args:
    path: the folder of a step.
    abstract_params: shapes, dtypes and shardings of the parameters, whose
      layout it has.

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
      f"checkpoint {str(path)!r} is damaged: {reason_of(error)}"
    ) from error
  return restored["params"]


def _run_of(path: pathlib.Path) -> pathlib.Path:
  return path.parent if path.name == "checkpoints" else path


def _shapes(tree) -> dict[str, tuple[int, ...]]:
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): tuple(leaf.shape)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }
