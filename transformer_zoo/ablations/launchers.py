"""Where the runs of a study are trained: in this process, or in several."""

from collections.abc import Iterator, Sequence
import contextlib
import importlib.util
import os
import pathlib
import signal
import sys
import time
from typing import Any, Protocol

from transformer_zoo.ablations import claims
from transformer_zoo.ablations import plan
from transformer_zoo.ablations import standing
from transformer_zoo.ablations.execution import Elsewhere
from transformer_zoo.ablations.execution import Execution
from transformer_zoo.ablations.execution import Job
from transformer_zoo.errors import UserError
from transformer_zoo.experiment import reuse

_POLL_SECONDS = 0.5
_NO_LIMIT_MINUTES = 60 * 24 * 365


class Launcher(Protocol):
  """Trains runs; used as a context, whose end leaves no process behind."""

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
  """Trains several runs at once, each in a process of submitit's.

  SIGTERM to this process ends them as well; they save their states.
  """

  def __init__(self, execute: Execution, folder: pathlib.Path, jobs: int):
    """Checks what is installed.

    Args:
      execute: trains a run.
      folder: for the output of the processes.
      jobs: how many at once, each with its share of the cores and GPUs.

    Raises:
      UserError: submitit is not installed.
    """
    self._execute = execute
    self._executor = require_submitit().LocalExecutor(folder)
    self._running: list[tuple[int, plan.Run, Any]] = []  # By slot.
    self._jobs = jobs

  def __enter__(self):
    self._before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return self

  def __exit__(self, *_):
    signal.signal(signal.SIGTERM, self._before)
    for _, _, job in self._running:
      if job.state == "RUNNING":
        os.kill(int(job.job_id), signal.SIGTERM)
    for _, _, job in self._running:
      while job.state == "RUNNING":
        time.sleep(_POLL_SECONDS)

  def has_room(self) -> bool:
    """Whether another run can be started."""
    return len(self._running) < self._jobs

  def start(self, run: plan.Run) -> None:
    """Begins to train a run."""
    taken = {slot for slot, _, _ in self._running}
    slot = min(set(range(self._jobs)) - taken)
    devices = share_of_devices(_visible_gpus(), slot, self._jobs)
    self._executor.update_parameters(
      timeout_min=_NO_LIMIT_MINUTES,
      gpus_per_node=len(devices),
      visible_gpus=devices,
      stderr_to_stdout=True,
    )
    cores = share_of_devices(_cores(), slot, self._jobs)
    job = self._executor.submit(Job(run, self._execute, cores))
    self._running.append((slot, run, job))

  def ended(self) -> Iterator[tuple[plan.Run, Exception | None]]:
    """Yields the runs whose processes have ended."""
    over = [entry for entry in self._running if entry[2].state != "RUNNING"]
    if not over:
      time.sleep(_POLL_SECONDS)
    for entry in over:
      self._running.remove(entry)
      _, run, job = entry
      yield run, _what_ended(run, job)


def _what_ended(run: plan.Run, job) -> Exception | None:
  came = standing.of_folder(run.folder)
  if came.state == standing.FINISHED:
    return None
  if came.state == standing.RUNNING:
    return Elsewhere(came.reason)
  if came.state == standing.FAILED:
    return UserError(came.reason)
  # Killed, or never begun.
  reason = f"its process ended without a result; see {job.paths.stdout}"
  if claims.last_owner(run.folder) is None:
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / standing.ERROR_FILE).write_text(reason, encoding="utf-8")
  return UserError(reason)


def require_submitit():
  """Imports submitit.

  Raises:
    UserError: it is not installed.
  """
  if importlib.util.find_spec("submitit") is None:
    raise UserError(
      "--executor submitit and --jobs need the package submitit: pip install "
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


def _cores() -> list[int]:
  """Those that this process may use; none where the system does not tell."""
  if not hasattr(os, "sched_getaffinity"):
    return []
  return sorted(os.sched_getaffinity(0))


def _visible_gpus() -> list[int]:
  chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
  if chosen is not None:
    return [int(index) for index in chosen.split(",") if index.isdigit()]
  nodes = pathlib.Path("/dev").glob("nvidia[0-9]*")
  return sorted(int(node.name.removeprefix("nvidia")) for node in nodes)
