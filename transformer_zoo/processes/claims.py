"""Claims on runs: locks that let one of several programs train a run.

A claim is a lock on a file in the run's folder. The kernel, or the server of a
shared file system, frees it when the process that holds it is gone, however it
ended; so no claim outlives its owner and none has to be removed by hand.
"""

from collections.abc import Iterator
import contextlib
import fcntl
import os
import pathlib
import socket
import time

from transformer_zoo.errors import UserError

CLAIM_FILE = "claim"
_TRIES, _SECONDS_BETWEEN = 5, 0.05


class NoLocksError(UserError):
  """Raised if the file system has no locks."""


@contextlib.contextmanager
def claim(folder: pathlib.Path, name: str = CLAIM_FILE) -> Iterator[bool]:
  """Claims a run until the block ends.

  Args:
    folder: the folder of the run, created if absent.
    name: the name of the file that is locked.

  Yields:
    True if this process has claimed the run, False if another one holds it.

  Raises:
    NoLocksError: the file system has no locks.
  """
  folder.mkdir(parents=True, exist_ok=True)
  with open(folder / name, "a+", encoding="utf-8") as file:
    # A process forked for data would hold the claim of a parent that is dead.
    os.register_at_fork(after_in_child=file.close)
    if not _lock_in_time(file):
      yield False
      return
    file.truncate(0)
    file.write(
      f"process {os.getpid()} on {socket.gethostname()} since "
      f"{time.strftime('%Y-%m-%d %H:%M:%S')}"
    )
    file.flush()
    yield True


def owner(folder: pathlib.Path, name: str = CLAIM_FILE) -> str | None:
  """Returns the process that trains a run, or None if no process does."""
  try:
    file = open(folder / name, encoding="utf-8")
  except OSError:
    return None
  with file:
    return None if _lock(file, fcntl.LOCK_SH) else file.read()


def last_owner(folder: pathlib.Path) -> str | None:
  """Returns the process that trained a run last, or None if none has begun."""
  try:
    return (folder / CLAIM_FILE).read_text(encoding="utf-8") or None
  except OSError:
    return None


def _lock_in_time(file) -> bool:
  """Locks as `_lock` does; a process that only looks holds a lock briefly."""
  for _ in range(_TRIES):
    if _lock(file, fcntl.LOCK_EX):
      return True
    time.sleep(_SECONDS_BETWEEN)
  return False


def _lock(file, kind: int) -> bool:
  """Returns whether the lock was free; it is held until the file is closed."""
  try:
    fcntl.flock(file, kind | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except OSError as error:
    raise NoLocksError(
      f"{file.name} cannot be locked ({error.strerror}), so two programs could "
      "write there at once; choose a folder on a file system with locks (NFS "
      "4, Lustre mounted with flock)"
    ) from error
  return True
