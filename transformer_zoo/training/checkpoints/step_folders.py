"""The folders of a run's checkpoints: listed, claimed, removed, put aside.

A kill leaves either a checkpoint under its number or leftovers under other
names. A bucket renames nothing; there Orbax writes a file at the end, and a
folder without it is no checkpoint.
"""

import os

from etils import epath

from transformer_zoo.errors import UserError

UNFINISHED = ".orbax-checkpoint-tmp"
REMOVED = ".removed"
DAMAGED = ".damaged"
_COMMITTED = "commit_success.txt"
_RUN = "run"
_BUCKET = "gs://"


def is_bucket(path: str | os.PathLike[str]) -> bool:
  """Returns True if a path is a URL to which Orbax can write."""
  return str(path).startswith(_BUCKET)


class StepFolders:
  """The folders `<root>/<step>/`, on a disk or at `gs://`.

  Attributes:
    root: The folder of all checkpoints.
  """

  def __init__(self, root: str | os.PathLike[str]):
    """Takes the folder of all checkpoints, which may not exist yet."""
    self.root = epath.Path(root)
    if not self.root.is_absolute():
      self.root = epath.Path(os.path.abspath(root))
    self._renames = not is_bucket(self.root)
    if is_bucket(self.root):
      # Otherwise epath imports TensorFlow where it is installed.
      os.environ.setdefault("EPATH_USE_TF", "false")

  def make(self) -> None:
    """Makes the folder of all checkpoints if it is missing."""
    self.root.mkdir(parents=True, exist_ok=True)

  def claim(self, run: str) -> None:
    """Claims the folder for a run.

    Args:
      run: The name of the run, the same on every machine.

    Raises:
      UserError: the folder belongs to another run, whose checkpoints would be
        restored and removed.
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
    """Returns the folder of a step."""
    return self.root / str(step)

  def steps(self) -> list[int]:
    """Returns the steps with a checkpoint."""
    return [
      int(entry.name)
      for entry in self._entries()
      if entry.name.isdigit() and entry.is_dir() and self._is_committed(entry)
    ]

  def remove(self, step: int) -> None:
    """Removes a checkpoint so that a kill leaves no part under its number."""
    folder = self.of(step)
    if self._renames:
      folder = folder.rename(self.root / f"{step}{REMOVED}")
    else:
      (folder / _COMMITTED).unlink()
    folder.rmtree()

  def put_aside(self, step: int) -> epath.Path:
    """Renames a damaged checkpoint and returns its new folder."""
    damaged = self.root / f"{step}{DAMAGED}"
    if damaged.exists():
      damaged.rmtree()
    self.of(step).rename(damaged)
    return damaged

  def remove_leftovers(self) -> None:
    """Removes the remains of interrupted saves and removals."""
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
