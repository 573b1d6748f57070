"""Launchers of runs: one after the other in this process, or in several.

`WorkerProcesses` keeps one `concurrent.futures.ProcessPoolExecutor` of a single
process for each run at once, so that the death of one process ends one run
only. A process starts Python and JAX once and keeps its compiled programs in
memory from run to run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
import contextlib
import faulthandler
import multiprocessing
from multiprocessing.connection import Connection
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from typing import Protocol

import jax

from transformer_zoo.errors import UserError
from transformer_zoo.runs import reuse
from transformer_zoo.studies.design.planned_run import Run
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution.single_run import Execution

_POLL_SECONDS = 0.5
_GPU_MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"


class Launcher(Protocol):
  """A context in which runs are trained; its end leaves no process behind.

  Attributes:
    at_once: The number of runs that it trains at the same time.
  """

  at_once: int

  def has_room(self) -> bool:
    """Returns whether another run can be started."""

  def start(self, run: Run) -> None:
    """Starts to train a run; may return after its end."""

  def ended(self) -> Iterator[tuple[Run, Exception | None]]:
    """Yields the runs that have ended since, each with its error or None.

    Waits for a moment if there are none.
    """


class InTurn:
  """Trains one run after the other in this process; they share programs."""

  at_once = 1

  def __init__(self, execute: Execution):
    self._execute = execute
    self._done = []
    self._reusing = contextlib.ExitStack()

  def __enter__(self):
    self._reusing.enter_context(reuse.reused())
    return self

  def __exit__(self, *_):
    self._reusing.close()

  def has_room(self) -> bool:
    """Returns whether another run can be started."""
    return not self._done

  def start(self, run: Run) -> None:
    """Trains a run to its end."""
    error = None
    try:
      self._execute(run)
    except Exception as caught:  # A failed run does not stop the others.
      error = caught
    self._done.append((run, error))

  def ended(self) -> Iterator[tuple[Run, Exception | None]]:
    """Yields the runs that have ended; waits if other launchers train."""
    if not self._done:
      time.sleep(_POLL_SECONDS)
    done, self._done = self._done, []
    yield from done


class WorkerProcesses:
  """Trains several runs at once, each in a process of its own.

  However this process ends, the workers save their states and end.
  """

  def __init__(
    self,
    execute: Execution,
    folder: pathlib.Path,
    jobs: int,
    say: Callable[[str], None],
  ):
    """Starts no process yet.

    Args:
      execute: The function that trains a run.
      folder: The folder for the output of the workers.
      jobs: The number of workers; each has its share of the cores and GPUs.
      say: The function that prints a message about a worker.
    """
    self.at_once = jobs
    self._execute = execute
    self._folder = folder
    self._say = say
    self._workers: list[_Worker | None] = [None] * jobs  # By slot.

  def __enter__(self):
    self._before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Leaves the accelerators to the workers, unless JAX has started already.
    jax.config.update("jax_platforms", "cpu")
    self._folder.mkdir(parents=True, exist_ok=True)
    return self

  def __exit__(self, *_):
    workers = list(filter(None, self._workers))
    if any(worker.run for worker in workers):
      self._say("the workers save their states and end")
    for worker in workers:
      worker.stop()
    for worker in workers:
      worker.wait()
    signal.signal(signal.SIGTERM, self._before)

  def has_room(self) -> bool:
    """Returns whether another run can be started."""
    return len(self._busy()) < len(self._workers)

  def start(self, run: Run) -> None:
    """Starts to train a run, in an idle worker if there is one."""
    for slot, worker in enumerate(self._workers):
      if worker and not worker.run:
        try:
          worker.start(run)
          return
        except BrokenProcessPool:  # It was killed while it was idle.
          worker.wait()
          self._workers[slot] = None
    self._new_worker().start(run)

  def ended(self) -> Iterator[tuple[Run, Exception | None]]:
    """Yields the runs that have ended, also runs of workers that died."""
    busy = self._busy()
    if not busy:
      time.sleep(_POLL_SECONDS)
      return
    futures.wait(
      [one.future for one in busy], _POLL_SECONDS, futures.FIRST_COMPLETED
    )
    for one in busy:
      if not one.future.done():
        continue
      run, error = one.run, one.future.exception()
      one.run = None
      if isinstance(error, BrokenProcessPool):
        self._workers[self._workers.index(one)] = None
        one.wait()
        error = UserError(
          f"the process of {one.name} ended abruptly, as by a signal or for "
          f"want of memory; see {one.output}"
        )
      yield run, error

  def _busy(self) -> list["_Worker"]:
    return [one for one in self._workers if one and one.run]

  def _new_worker(self) -> "_Worker":
    slot, jobs = self._workers.index(None), len(self._workers)
    name = f"worker {slot + 1}"
    output = (
      self._folder / f"{socket.gethostname()}-{os.getpid()}-{slot + 1}.txt"
    )
    cores = share_of_devices(usable_cores(), slot, jobs)
    gpus = visible_gpus()
    shown = ", ".join(map(str, cores)) or "all"
    self._say(f"{name}: cores {shown}; it prints into {output}")
    self._workers[slot] = _Worker(
      name,
      self._execute,
      output,
      cores=cores,
      variables=gpu_variables(gpus, slot, jobs) if gpus else {},
    )
    return self._workers[slot]


class _Worker:
  """A pool of one process that trains runs one after the other.

  Attributes:
    name: The name of the worker in messages.
    output: The file that the process prints into.
    run: The run that it trains, None if it is idle.
    future: The result of the last run.
  """

  def __init__(
    self,
    name: str,
    execute: Execution,
    output: pathlib.Path,
    *,
    cores: Sequence[int],
    variables: Mapping[str, str],
  ):
    self.name = name
    self.output = output
    self.run: Run | None = None
    self.future: futures.Future | None = None
    self._execute = execute
    self._cores = cores
    # The process sees the end of this one as the end of its connection.
    theirs, self._connection = multiprocessing.Pipe(duplex=False)
    self._pool = futures.ProcessPoolExecutor(
      max_workers=1,
      mp_context=multiprocessing.get_context("spawn"),
      initializer=_start_worker,
      initargs=(output, variables, theirs),
    )

  def start(self, run: Run) -> None:
    """Starts to train a run."""
    with _only(self._cores):  # The first call starts the process.
      self.future = self._pool.submit(_train, self._execute, run)
    self.run = run

  def stop(self) -> None:
    """Asks a busy process to save the state of its run and to end."""
    if self.run:
      self._connection.close()

  def wait(self) -> None:
    """Ends an idle process and waits for the end of a busy one."""
    self._pool.shutdown()
    self._connection.close()


def _start_worker(
  output: pathlib.Path, variables: Mapping[str, str], launcher: Connection
) -> None:
  """Prepares a worker process.

  Args:
    output: The file for everything that the process prints; it is appended to.
    variables: The environment variables to set before JAX starts.
    launcher: A connection that ends when the launcher stops the worker or dies.
  """
  os.setsid()  # Ctrl-C reaches the launcher alone, which stops its workers.
  with open(output, "a", encoding="utf-8") as file:
    for stream in (sys.stdout, sys.stderr):
      os.dup2(file.fileno(), stream.fileno())
      stream.reconfigure(line_buffering=True)
  faulthandler.enable()
  os.environ.update(variables)
  single_run.stop_on_sigterm()
  reuse.reused().__enter__()  # Until the process ends.
  threading.Thread(target=_end_with, args=(launcher,), daemon=True).start()


def _end_with(launcher: Connection) -> None:
  """Ends this process after the launcher: first its run, then its waiting."""
  with contextlib.suppress(EOFError, OSError):
    launcher.recv()
  while True:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1)


def _train(execute: Execution, run: Run) -> None:
  """Trains a run in a worker; raises only errors that can be pickled."""
  print(f"\n== {run.name}")
  try:
    execute(run)
  except (single_run.Elsewhere, UserError):
    raise
  except Exception as error:  # Some exceptions cannot be pickled.
    raise UserError(single_run.reason(error)) from None


@contextlib.contextmanager
def _only(cores: Sequence[int]) -> Iterator[None]:
  """Restricts a process that is started within it to some cores.

  Libraries that count the cores when they are imported then start as many
  threads.
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


def share_of_devices(
  devices: Sequence[int], slot: int, slots: int
) -> tuple[int, ...]:
  """Returns the GPUs or cores of one of several processes, at least one.

  Args:
    devices: The devices of the machine.
    slot: The index of the process, from 0.
    slots: The number of processes.
  """
  if len(devices) < slots:
    return tuple(devices[slot % len(devices) :][:1]) if devices else ()
  return tuple(devices[slot::slots])


def gpu_variables(gpus: Sequence[int], slot: int, slots: int) -> dict[str, str]:
  """Returns the environment variables of a process with a share of the GPUs.

  JAX reserves three quarters of a GPU's memory when it starts; processes that
  share a GPU divide this.

  Args:
    gpus: The GPUs of the machine.
    slot: The index of the process, from 0.
    slots: The number of processes.
  """
  variables = {
    "CUDA_VISIBLE_DEVICES": ",".join(
      map(str, share_of_devices(gpus, slot, slots))
    )
  }
  on_one = -(-slots // len(gpus))
  if on_one > 1 and _GPU_MEMORY not in os.environ:
    variables[_GPU_MEMORY] = f"{0.75 / on_one:.3f}"
  return variables


def usable_cores() -> list[int]:
  """Returns the cores that this process may use; empty if unknown."""
  if not hasattr(os, "sched_getaffinity"):
    return []
  return sorted(os.sched_getaffinity(0))


def visible_gpus() -> list[int]:
  """Returns the GPUs that this process may use."""
  chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
  if chosen is not None:
    return [int(index) for index in chosen.split(",") if index.isdigit()]
  nodes = pathlib.Path("/dev").glob("nvidia[0-9]*")
  return sorted(int(node.name.removeprefix("nvidia")) for node in nodes)
