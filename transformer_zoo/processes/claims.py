"""Claims on runs: of several programs one trains a run, the others see who.

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
  """The file system has no locks."""


@contextlib.contextmanager
def claim(folder: pathlib.Path, name: str = CLAIM_FILE) -> Iterator[bool]:
  """Claims a run until the block ends.

  Args:
    folder: the run's folder, made if absent.
    name: of the file that is locked.

  Yields:
    Whether the run is this process's; False where another has claimed it.

  Raises:
    NoLocksError: the file system has none.
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
  """Returns who is training a run, or None where nobody is."""
  try:
    file = open(folder / name, encoding="utf-8")
  except OSError:
    return None
  with file:
    return None if _lock(file, fcntl.LOCK_SH) else file.read()


def last_owner(folder: pathlib.Path) -> str | None:
  """Returns who trained a run last, or None where nobody has begun."""
  try:
    return (folder / CLAIM_FILE).read_text(encoding="utf-8") or None
  except OSError:
    return None


def _lock_in_time(file) -> bool:
  """`_lock`, but that who only looks holds it for a moment."""
  for _ in range(_TRIES):
    if _lock(file, fcntl.LOCK_EX):
      return True
    time.sleep(_SECONDS_BETWEEN)
  return False


def _lock(file, kind: int) -> bool:
  """Whether the lock was free; it is then held until the file is closed."""
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
