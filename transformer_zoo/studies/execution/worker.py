"""Processes of this machine that train runs, each one after the other.

A worker starts Python and JAX once, and keeps its programs in memory from run
to run. It hangs on a connection to its launcher: what comes is a run to train,
what goes back is what ended it. When the connection is gone, however that
happened, the worker saves its state and ends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading

from transformer_zoo.errors import UserError
from transformer_zoo.runs import reuse
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.execution import single_run


class Worker:
  """A worker, as its launcher sees it.

  Attributes:
    name: what messages call it.
    run: what it trains; None where it waits.
  """

  def __init__(
    self,
    name: str,
    execute: Callable[[plan.Run], None],
    output: pathlib.Path,
    *,
    cores: Sequence[int],
    variables: Mapping[str, str],
  ):
    """Starts the process.

    Args:
      name: what messages call it.
      execute: trains a run.
      output: a file for what it prints; what it holds is kept.
      cores: that it may use; empty for all.
      variables: of its environment, over those of this process.
    """
    self.name = name
    self.run: plan.Run | None = None
    self._output = output
    self._connection, theirs = multiprocessing.Pipe()
    with theirs, open(output, "a", encoding="utf-8") as file, _only(cores):
      self._process = subprocess.Popen(
        # -P: no module of the current folder comes before those of Python.
        [sys.executable, "-uPm", __name__, str(theirs.fileno())],
        env={**os.environ, "PYTHONPATH": _python_path(), **variables},
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.STDOUT,
        # Ctrl-C is for the launcher, which ends its workers in order.
        start_new_session=True,
      )
    self._send(execute)

  def start(self, run: plan.Run) -> None:
    """Begins to train a run."""
    self.run = run
    self._send(run)

  def ended(self) -> Exception | None:
    """What ended its run, which `when_ready` has found ended; None for nothing.

    Raises:
      EOFError: the process has ended.
    """
    try:
      # Processes that it has started may keep the connection of a dead one.
      if not self._connection.poll():
        raise EOFError
      error = self._connection.recv()
    except (EOFError, OSError) as lost:
      raise EOFError(self._last_words()) from lost
    self.run = None
    return error

  def leave(self) -> None:
    """Asks it to save its state and to end."""
    self._connection.close()

  def wait(self) -> None:
    """Waits for its end."""
    self._process.wait()

  def _send(self, what: object) -> None:
    with contextlib.suppress(OSError):  # It has died, as `ended` will tell.
      self._connection.send(what)

  def _last_words(self) -> str:
    code = self._process.wait()
    how = f"code {code}" if code >= 0 else signal.Signals(-code).name
    return (
      f"{self.name}, process {self._process.pid}, was ended by {how}; see "
      f"{self._output}"
    )


def when_ready(workers: Sequence[Worker], seconds: float) -> list[Worker]:
  """Waits until the run of a worker has ended, or for so long.

  Args:
    workers: those that train.
    seconds: to wait for the first.

  Returns:
    Those that `Worker.ended` can be asked of.
  """
  ready = multiprocessing.connection.wait(
    [worker._connection for worker in workers], seconds
  )
  return [
    worker
    for worker in workers
    if worker._connection in ready or worker._process.poll() is not None
  ]


def _python_path() -> str:
  return os.pathsep.join(map(os.path.abspath, sys.path))


@contextlib.contextmanager
def _only(cores: Sequence[int]) -> Iterator[None]:
  """Within it a new process has but these cores, from its first instruction.

  So libraries that count them as they are imported start as many threads.
  """
  if not cores:
    yield
    return
  before = os.sched_getaffinity(0)
  os.sched_setaffinity(0, cores)
  try:
    yield
  finally:
    os.sched_setaffinity(0, before)


def main(connection: multiprocessing.connection.Connection) -> None:
  """Trains what comes, until nothing can come any more."""
  received = queue.SimpleQueue()
  single_run.stop_on_sigterm()
  threading.Thread(
    target=_read, args=(connection, received), daemon=True
  ).start()
  execute = received.get()
  with reuse.reused():
    while True:
      run = received.get()
      print(f"\n== {run.name}")
      connection.send(_error_of(execute, run))


def _read(connection, received: queue.SimpleQueue) -> None:
  try:
    with contextlib.suppress(EOFError, OSError):
      while True:
        received.put(connection.recv())
  finally:
    os.kill(os.getpid(), signal.SIGTERM)


def _error_of(execute, run: plan.Run) -> Exception | None:
  """Trains a run; what ended it in a form that the launcher can read."""
  try:
    execute(run)
  except single_run.Elsewhere as error:
    return error
  except Exception as error:  # The other runs are worth having all the same.
    return UserError(single_run.reason(error))
  return None


if __name__ == "__main__":
  main(multiprocessing.connection.Connection(int(sys.argv[1])))
