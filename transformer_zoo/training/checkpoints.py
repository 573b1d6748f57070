"""Checkpoints: asynchronous, atomic, verified; the newest and the best stay.

Orbax writes `checkpoints/<step>/` under a temporary name and renames it when
it is whole. Beside the state lies `progress`, the little that the loop must
remember (sums of an unfinished logging window, the best score so far). When a
checkpoint is complete its files' checksums are written next to it, so damage
that leaves a readable file is found too.
"""

from collections.abc import Sequence
import json
import os
import pathlib
import shutil
from typing import Any

import jax
import orbax.checkpoint as ocp

from transformer_zoo.errors import UserError
from transformer_zoo.training import checksums
from transformer_zoo.training.state import TrainState


class DamagedCheckpointError(UserError):
  """The files of a checkpoint are not those that were written."""


class _NewestAndBest:
  """Orbax preservation policy: the newest checkpoints and the best one."""

  def __init__(self, newest: int):
    self.newest = newest
    self.best_step: int | None = None

  def should_preserve(self, checkpoints: Sequence[Any], *, context) -> list:
    del context  # The same rule whoever asks.
    first_kept = len(checkpoints) - self.newest
    return [
      i >= first_kept or checkpoint.step == self.best_step
      for i, checkpoint in enumerate(checkpoints)
    ]


class Checkpoints:
  """The checkpoints of one run."""

  def __init__(self, folder: str | os.PathLike[str], *, keep: int = 2):
    """Opens `folder`, made when missing.

    Args:
      folder: usually `<run>/checkpoints`.
      keep: how many of the newest checkpoints stay, beside the best.
    """
    self._folder = pathlib.Path(folder).absolute()
    self._policy = _NewestAndBest(keep)
    self._unsealed: int | None = None
    self._manager = ocp.CheckpointManager(
      self._folder,
      options=ocp.CheckpointManagerOptions(
        preservation_policy=self._policy,
        enable_async_checkpointing=True,
        cleanup_tmp_directories=True,
      ),
    )

  def save(self, step: int, state: TrainState, progress: dict) -> None:
    """Starts to save; waits only for the checkpoint before to be complete.

    Args:
      step: steps made.
      state: copied to the host before this returns, so it may be donated.
      progress: JSON; `best_step` in it names the checkpoint to keep.
    """
    self._seal()
    self._policy.best_step = progress.get("best_step")
    if step in self._manager.all_steps():
      return
    self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(state),
        progress=ocp.args.JsonSave(progress),
      ),
    )
    self._unsealed = step

  def restore_newest(
    self, abstract_state: TrainState, report=print
  ) -> tuple[TrainState, dict] | None:
    """Restores the newest checkpoint that is whole.

    Args:
      abstract_state: shapes, dtypes and shardings of the state.
      report: called with one sentence for each damaged checkpoint, which is
        put aside as `<step>.damaged`.

    Returns:
      The state and the progress saved with it, or None without a checkpoint.

    Raises:
      UserError: a checkpoint is whole, but of another program.
    """
    for step in sorted(self._manager.all_steps(), reverse=True):
      whole = False
      try:
        whole = checksums.verify(self._folder / str(step))
        restored = self._manager.restore(
          step,
          args=ocp.args.Composite(
            state=ocp.args.StandardRestore(abstract_state),
            progress=ocp.args.JsonRestore(),
          ),
        )
      except Exception as error:  # Orbax raises many kinds for a bad file.
        reason = str(error).strip().splitlines() or [type(error).__name__]
        if whole:
          raise UserError(
            f"checkpoint {str(self._folder / str(step))!r} is whole but cannot "
            f"be restored ({reason[0][:200]}); it was written by another "
            "version of the program: use that one, or another MODEL_DIR"
          ) from error
        damaged = self._folder / f"{step}.damaged"
        report(
          f"checkpoint {step} is damaged ({reason[0][:200]}); it is put aside "
          f"as {damaged} and the one before is used"
        )
        shutil.rmtree(damaged, ignore_errors=True)
        os.rename(self._folder / str(step), damaged)
        self._manager.reload()
        continue
      if not whole:  # The run was killed before the checksums were written.
        self._unsealed = step
      return restored["state"], restored["progress"]
    return None

  def close(self) -> None:
    """Waits until the last checkpoint is complete; closing twice is fine."""
    self._seal()
    self._manager.close()

  def _seal(self) -> None:
    self._manager.wait_until_finished()
    if self._unsealed is not None and jax.process_index() == 0:
      folder = self._folder / str(self._unsealed)
      if folder.exists():
        checksums.write(folder)
    self._unsealed = None


def resolve(path: str | os.PathLike[str]) -> pathlib.Path:
  """Finds the checkpoint that a user's path means.

  Args:
    path: a step's folder, a folder of checkpoints, or a run folder; of several
      steps it is the best one of a finished run, else the newest.

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
  return found.get(best, found[max(found)])


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
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise DamagedCheckpointError(
      f"checkpoint {str(path)!r} is damaged: {reason[0][:200]}"
    ) from error
  return restored["params"]


def _run_of(path: pathlib.Path) -> pathlib.Path:
  return path.parent if path.name == "checkpoints" else path


def _shapes(tree) -> dict[str, tuple[int, ...]]:
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): tuple(leaf.shape)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }
