"""Worker processes, which take one job after the other."""

from collections.abc import Callable
import gc
import multiprocessing
from multiprocessing import connection
import os
import signal
import sys
import time
from typing import Any
import warnings

from transformer_zoo.errors import UserError

_TELL_SECONDS = 5.0


class Board:
  """The processes' shared state: each job's worker and progress."""

  def __init__(self, count: int, processes: int, context: Any):
    self.count = count
    self.on_note: Callable[[], None] | None = None
    self._processes = processes
    self._parent = os.getpid()
    self._next = context.Value("q", 0)
    self._working = context.Value("q", 0)
    self._shares = context.Array("d", count, lock=False)
    self._numbers = context.Array("q", count, lock=False)

  def take(self) -> int | None:
    """Returns the number of a free job, or None if none is left."""
    with self._next.get_lock():
      job = self._next.value
      self._next.value += 1
    return job if job < self.count else None

  def enter(self, change: int = 1) -> None:
    """Counts a process that begins (1) or ends (-1) to work."""
    with self._working.get_lock():
      self._working.value += change

  def threads(self) -> int:
    """Returns how many threads each process may use: idle ones are shared."""
    return max(1, self._processes // max(1, self._working.value))

  def note(self, job: int, share: float, number: int) -> None:
    """Notes how much of a job is done.

    A process whose parent is gone ends here: the next `prepare` waits for that
    and goes on.

    Args:
      job: The number of the job.
      share: The share of the job that is done, from 0 to 1.
      number: The number of examples that are done.
    """
    if self._parent not in (os.getpid(), os.getppid()):
      os._exit(1)
    self._shares[job] = share
    self._numbers[job] = number
    if self.on_note:
      self.on_note()

  @property
  def shares(self) -> list[float]:
    """The share of each job that is done, from 0 to 1."""
    return list(self._shares)

  @property
  def number(self) -> int:
    """Examples of all jobs so far."""
    return sum(self._numbers)


def run(
  work: Callable[[int, Board], None],
  count: int,
  *,
  processes: int,
  fresh: bool,
  tell: Callable[[Board], None],
) -> None:
  """Does the jobs 0, 1, ..., `count` - 1.

  Args:
    work: does one; can be pickled where processes are fresh.
    count: The number of jobs.
    processes: The number of processes that work at once, or of threads if there
      is one job.
    fresh: processes begin with nothing; otherwise they have all that this one
      has, which is faster but forbids them TensorFlow.
    tell: called every few seconds.

  Raises:
    UserError: one that a job raised; or a process was killed.
  """
  context = multiprocessing.get_context("spawn" if fresh else "fork")
  board = Board(count, processes, context)
  if min(processes, count) <= 1:
    _work_here(work, board, tell)
    return
  errors = context.SimpleQueue()
  children = [
    context.Process(target=_serve, args=(work, board, errors), daemon=True)
    for _ in range(min(processes, count))
  ]
  try:
    with warnings.catch_warnings():
      # Threads of TensorFlow and JAX do not come along, and are not needed.
      warnings.simplefilter("ignore")
      for child in children:
        child.start()
    failed = _wait(children, lambda: tell(board))
  finally:
    for child in children:
      if child.pid is not None:
        child.kill()
        child.join()
  if not errors.empty():
    raise UserError(errors.get())
  _raise_for(failed)


def _work_here(
  work: Callable[[int, Board], None],
  board: Board,
  tell: Callable[[Board], None],
) -> None:
  told = time.monotonic()

  def tell_now_and_then():
    nonlocal told
    if time.monotonic() - told >= _TELL_SECONDS:
      tell(board)
      told = time.monotonic()

  board.on_note = tell_now_and_then
  while (job := board.take()) is not None:
    work(job, board)


def _serve(
  work: Callable[[int, Board], None], board: Board, errors: Any
) -> None:
  """Does jobs from the board until none is left; the body of a process."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this one
  gc.freeze()  # or each collection would copy the pages that came along
  board.enter()
  try:
    while (job := board.take()) is not None:
      work(job, board)
  except UserError as error:
    errors.put(str(error))
    sys.exit(1)
  board.enter(-1)


def _wait(children: list[Any], tell: Callable[[], None]) -> int:
  """Waits until all have ended or one fails, and returns its exit code."""
  while running := [c.sentinel for c in children if c.exitcode is None]:
    if not connection.wait(running, timeout=_TELL_SECONDS):
      tell()
    if failed := _failure(children):
      return failed
  # The last of them may have ended since.
  return _failure(children)


def _failure(children: list[Any]) -> int:
  """Returns the exit code of a child that failed, 0 if none has."""
  return next((child.exitcode for child in children if child.exitcode), 0)


def _raise_for(code: int) -> None:
  """Raises what an exit code says."""
  if code > 0:
    raise RuntimeError("A process of `prepare` failed; its error is above.")
  if code:
    raise UserError(
      f"A process of `prepare` was killed by signal {-code} (9: perhaps for "
      "want of memory); run it again, with fewer --processes: what is finished "
      "is kept."
    )
