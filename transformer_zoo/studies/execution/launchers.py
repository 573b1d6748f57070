"""Where the runs of a study are trained: in this process, or in several."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import importlib.util
import os
import pathlib
import signal
import socket
import sys
import time
from typing import Protocol

import jax

from transformer_zoo.errors import UserError
from transformer_zoo.runs import reuse
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.execution import worker as worker_lib
from transformer_zoo.studies.execution.single_run import Execution
from transformer_zoo.studies.execution.worker import Worker

_POLL_SECONDS = 0.5
_GPU_MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"


class Launcher(Protocol):
  """Trains runs; used as a context, whose end leaves no process behind.

  Attributes:
    at_once: how many it trains at the same time.
  """

  at_once: int

  def has_room(self) -> bool:
    """Whether another run can be started."""

  def start(self, run: plan.Run) -> None:
    """Trains a run, or begins to."""

  def ended(self) -> Iterator[tuple[plan.Run, Exception | None]]:
    """Yields the runs that have ended since, each with what ended it.

    Waits a while where there is none.
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
    """Whether another run can be started."""
    return not self._done

  def start(self, run: plan.Run) -> None:
    """Trains a run to its end."""
    error = None
    try:
      self._execute(run)
    except Exception as caught:  # The other runs are worth having all the same.
      error = caught
    self._done.append((run, error))

  def ended(self) -> Iterator[tuple[plan.Run, Exception | None]]:
    """Yields what has ended; waits where others train what is left."""
    if not self._done:
      time.sleep(_POLL_SECONDS)
    done, self._done = self._done, []
    yield from done


class LocalProcesses:
  """Trains several runs at once, each in a worker of its own.

  However this process ends, the workers save their states and end.
  """

  def __init__(
    self,
    execute: Execution,
    folder: pathlib.Path,
    jobs: int,
    say: Callable[[str], None],
  ):
    """Starts nothing yet.

    Args:
      execute: trains a run.
      folder: for the output of the workers.
      jobs: how many at once, each with its share of the cores and GPUs.
      say: told of each worker.
    """
    self.at_once = jobs
    self._execute = execute
    self._folder = folder
    self._say = say
    self._workers: list[Worker | None] = [None] * jobs  # By slot.

  def __enter__(self):
    self._before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Where JAX has not started here, the accelerators are the workers'.
    jax.config.update("jax_platforms", "cpu")
    self._folder.mkdir(parents=True, exist_ok=True)
    return self

  def __exit__(self, *_):
    workers = list(filter(None, self._workers))
    for worker in workers:
      worker.leave()
    if any(worker.run for worker in workers):
      self._say("the workers save their states and end")
    for worker in workers:
      worker.wait()
    signal.signal(signal.SIGTERM, self._before)

  def has_room(self) -> bool:
    """Whether another run can be started."""
    return len(self._busy()) < len(self._workers)

  def start(self, run: plan.Run) -> None:
    """Begins to train a run."""
    # One that waits before one that would have to be started.
    waiting = [one for one in self._workers if one and not one.run]
    worker = waiting[0] if waiting else self._new_worker()
    worker.start(run)

  def ended(self) -> Iterator[tuple[plan.Run, Exception | None]]:
    """Yields the runs that have ended; a worker may have, with its run."""
    busy = self._busy()
    if not busy:
      time.sleep(_POLL_SECONDS)
    for one in worker_lib.when_ready(busy, _POLL_SECONDS) if busy else ():
      run = one.run
      try:
        yield run, one.ended()
      except EOFError as error:
        self._workers[self._workers.index(one)] = None
        yield run, UserError(str(error))

  def _busy(self) -> list[Worker]:
    return [one for one in self._workers if one and one.run]

  def _new_worker(self) -> Worker:
    slot, jobs = self._workers.index(None), len(self._workers)
    name = f"worker {slot + 1}"
    output = (
      self._folder / f"{socket.gethostname()}-{os.getpid()}-{slot + 1}.txt"
    )
    cores = share_of_devices(usable_cores(), slot, jobs)
    gpus = visible_gpus()
    shown = ", ".join(map(str, cores)) or "all"
    self._say(f"{name}: cores {shown}; it prints into {output}")
    self._workers[slot] = Worker(
      name,
      self._execute,
      output,
      cores=cores,
      variables=gpu_variables(gpus, slot, jobs) if gpus else {},
    )
    return self._workers[slot]


def require_submitit():
  """Imports submitit.

  Raises:
    UserError: it is not installed.
  """
  if importlib.util.find_spec("submitit") is None:
    raise UserError(
      "--executor submitit needs the package submitit: pip install "
      "'transformer_zoo[launch]'"
    )
  variable = "SUBMITIT_LOG_LEVEL"
  given = os.environ.setdefault(variable, "NOCONFIG")
  # Else it would close the handlers of all logging in this process.
  import submitit

  if given == "NOCONFIG":
    del os.environ[variable]  # Jobs write down what happens to them.
  return submitit


def share_of_devices(
  devices: Sequence[int], slot: int, slots: int
) -> tuple[int, ...]:
  """The GPUs or cores of one of several processes; each has one, if any has.

  Args:
    devices: those of the machine.
    slot: which of the processes, from 0.
    slots: how many there are.
  """
  if len(devices) < slots:
    return tuple(devices[slot % len(devices) :][:1]) if devices else ()
  return tuple(devices[slot::slots])


def gpu_variables(gpus: Sequence[int], slot: int, slots: int) -> dict[str, str]:
  """The environment of a process that has a share of the GPUs.

  JAX takes three quarters of a GPU's memory as it starts: where processes have
  to share one, they divide that.
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
  """Those that this process may use; none where the system does not tell."""
  if not hasattr(os, "sched_getaffinity"):
    return []
  return sorted(os.sched_getaffinity(0))


def visible_gpus() -> list[int]:
  """Those that this process may use."""
  chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
  if chosen is not None:
    return [int(index) for index in chosen.split(",") if index.isdigit()]
  nodes = pathlib.Path("/dev").glob("nvidia[0-9]*")
  return sorted(int(node.name.removeprefix("nvidia")) for node in nodes)
