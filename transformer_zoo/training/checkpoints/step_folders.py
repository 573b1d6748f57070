"""The folders of a run's checkpoints: which are whole, how one goes away.

A kill leaves a checkpoint under its number, or leftovers under other names.
Object stores rename nothing; there Orbax writes a file at the end, and what
lacks it is no checkpoint.
"""

import os

from etils import epath

from transformer_zoo.errors import UserError

UNFINISHED = ".orbax-checkpoint-tmp"
REMOVED = ".removed"
DAMAGED = ".damaged"
_COMMITTED = "commit_success.txt"
_RUN = "run"


class StepFolders:
  """`<root>/<step>/`, on a disk or at `gs://` and the like.

  Attributes:
    root: the folder of all of them.
  """

  def __init__(self, root: str | os.PathLike[str]):
    """Names the folder; a relative path is of the current one."""
    self.root = epath.Path(root)
    if not self.root.is_absolute():
      self.root = epath.Path(os.path.abspath(root))
    self._renames = "://" not in str(self.root)

  def make(self) -> None:
    """Makes the folder of all of them where it is missing."""
    self.root.mkdir(parents=True, exist_ok=True)

  def claim(self, run: str) -> None:
    """Marks the folder as a run's own.

    Args:
      run: its name, the same on every machine that it may go on at.

    Raises:
      UserError: it is another run's, whose checkpoints would be restored and
        removed.
    """
    mark = self.root / _RUN
    owner = mark.read_text().strip() if mark.exists() else run
    if owner != run:
      raise UserError(
        f"Checkpointing.folder={str(self.root)!r} has the checkpoints of the "
        f"run in {owner!r}; choose another folder for {run!r}, or delete "
        f"{str(mark)!r} if that run has moved there"
      )
    mark.write_text(run + "\n")

  def of(self, step: int) -> epath.Path:
    """The folder of a step."""
    return self.root / str(step)

  def steps(self) -> list[int]:
    """The steps that have a checkpoint; no time of a file is looked at."""
    return [
      int(entry.name)
      for entry in self._entries()
      if entry.name.isdigit() and entry.is_dir() and self._is_committed(entry)
    ]

  def remove(self, step: int) -> None:
    """Removes a checkpoint; a kill meanwhile leaves none of this number."""
    folder = self.of(step)
    if self._renames:
      folder = folder.rename(self.root / f"{step}{REMOVED}")
    else:
      (folder / _COMMITTED).unlink()
    folder.rmtree()

  def put_aside(self, step: int) -> epath.Path:
    """Renames a checkpoint that is damaged; returns its folder."""
    damaged = self.root / f"{step}{DAMAGED}"
    if damaged.exists():
      damaged.rmtree()
    self.of(step).rename(damaged)
    return damaged

  def remove_leftovers(self) -> None:
    """Removes what saves and removals that were broken off have left."""
    for entry in self._entries():
      if (
        UNFINISHED in entry.name
        or entry.name.endswith(REMOVED)
        or (entry.name.isdigit() and not self._is_committed(entry))
      ):
        entry.rmtree()

  def _entries(self) -> list[epath.Path]:
    # An object store has no empty folders.
    return list(self.root.iterdir()) if self.root.exists() else []

  def _is_committed(self, step: epath.Path) -> bool:
    return self._renames or (step / _COMMITTED).exists()
