"""The progress of a run, read from the files in its folder.

Launchers, their jobs on other machines and `zoo report` all read the same
files, so that no list of states exists that a killed process could leave wrong:
a lock that is held (`processes/claims.py`), `result.json`, `error.txt`, and the
pool's `jobs.json` for jobs that wait in a queue.
"""

from collections.abc import Mapping
import dataclasses
import pathlib
import re
import statistics
import subprocess
import time

from transformer_zoo.errors import UserError
from transformer_zoo.processes import claims
from transformer_zoo.studies.execution import json_files
from transformer_zoo.training.monitoring import recorder

RESULT_FILE = "result.json"
ERROR_FILE = "error.txt"
JOBS_FILE = "jobs.json"

FINISHED = "finished"
RUNNING = "running"
QUEUED = "queued"
FAILED = "failed"
INTERRUPTED = "interrupted"
NOT_RUN = "not run"
# In the order in which a summary names them.
STATES = (FINISHED, RUNNING, QUEUED, FAILED, INTERRUPTED, NOT_RUN)

_LAST_BYTES = 1 << 16
_SECONDS_PER_STEP = "timing/seconds_per_step"
_LAST_ROWS = 4  # Of the log: the speed now, without the noise of one of them.
_STEP = re.compile(r'"step": (\d+)')
_TRAIN_STEPS = re.compile(r"^TRAIN_STEPS = (\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class RunProgress:
  """The progress of a run.

  Attributes:
    state: One of `STATES`.
    reason: An explanation of the state for messages; empty if the run is
      finished.
    blocked: True if a run that this one starts from has failed.
  """

  state: str
  reason: str = ""
  blocked: bool = False


@dataclasses.dataclass(frozen=True)
class Steps:
  """What a run that is training has logged.

  Attributes:
    done: The number of steps.
    evaluated: The step of the last evaluation, 0 if there was none.
    planned: The number of steps at the end of the run.
    seconds: The duration of one of the last steps.
    age: The time since they were logged, in seconds.
  """

  done: int
  evaluated: int
  planned: int
  seconds: float
  age: float


def steps_of(folder: pathlib.Path, since: float) -> Steps | None:
  """Returns the steps of a running run, None before it has logged any.

  Args:
    folder: The folder of the run.
    since: The time at which the run was started, in seconds since the epoch.
      What it had logged when it was interrupted before does not count.
  """
  path = folder / recorder.TIMING_FILE
  try:
    logged = [r for r in recorder.read_lines(path) if _SECONDS_PER_STEP in r]
    written = path.stat().st_mtime
    metrics = recorder.read_lines(folder / recorder.METRICS_FILE)
    planned = _TRAIN_STEPS.search((folder / "config.gin").read_text("utf-8"))
  except (OSError, UserError):
    return None
  if not logged or not planned or written < since:
    return None
  last = logged[-_LAST_ROWS:]
  return Steps(
    done=last[-1]["step"],
    evaluated=max(
      (row["step"] for row in metrics if any(map(_is_validation, row))),
      default=0,
    ),
    planned=int(planned.group(1)),
    seconds=statistics.mean(row[_SECONDS_PER_STEP] for row in last),
    age=time.time() - written,
  )


def _is_validation(name: str) -> bool:
  return name.startswith("validation/")


def read(folder: pathlib.Path, job: str | None = None) -> RunProgress:
  """Returns the progress of the run in a folder.

  Args:
    folder: The folder of the run; it need not exist.
    job: The name of the job that waits in a queue to train the run, or None.
  """
  owner = claims.owner(folder)
  if owner is not None:
    return RunProgress(RUNNING, f"{_step_of(folder)}{owner}")
  # Before errors: a failed run may have been finished by its own command.
  if (folder / RESULT_FILE).exists():
    return RunProgress(FINISHED)
  error = _first_line(folder / ERROR_FILE)
  if error is not None:
    return RunProgress(FAILED, error)
  last = claims.last_owner(folder)
  if job is not None or last is None:
    return of_job(job)
  return RunProgress(
    INTERRUPTED,
    f"interrupted, {_step_of(folder)}{last}; the same command goes on",
  )


def of_job(job: str | None) -> RunProgress:
  """Returns the progress of a run that has not begun.

  Args:
    job: The name of the job that waits in a queue to train the run, or None.
  """
  if job is None:
    return RunProgress(NOT_RUN)
  return RunProgress(QUEUED, f"job {job}")


def after_start(
  progress: RunProgress, start: RunProgress, phase: str
) -> RunProgress:
  """Returns the progress of a run in view of a run that it starts from.

  Args:
    progress: The progress of the run by itself.
    start: The progress of the run that it starts from.
    phase: The phase of the run that it starts from.
  """
  if progress.state != NOT_RUN or start.state == FINISHED:
    return progress
  if start.state == FAILED or start.blocked:
    reason = f"not run, because {phase} failed"
    return RunProgress(NOT_RUN, reason, blocked=True)
  return RunProgress(NOT_RUN, f"waits for {phase}")


def write_jobs(pool: pathlib.Path, jobs: Mapping[str, str]) -> None:
  """Records the jobs of a pool.

  Args:
    pool: The folder of all runs.
    jobs: The job of each run, by the name of the run's folder.
  """
  json_files.replace(pool / JOBS_FILE, jobs)


def active_jobs(pool: pathlib.Path, required: bool = False) -> dict[str, str]:
  """Returns the jobs that wait or run, by the names of their runs' folders.

  Args:
    pool: The folder of all runs.
    required: True to raise an error if SLURM does not answer. Otherwise all
      jobs count as active then, as on a machine without SLURM.

  Raises:
    UserError: If SLURM does not answer, or the file is damaged.
  """
  jobs = _read_jobs(pool / JOBS_FILE)
  if not jobs:
    return {}
  # `--array` lists the jobs of an array one by one.
  command = ["squeue", "--me", "--array", "--noheader", "--format=%i"]
  try:
    listed = subprocess.run(
      command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
  except (OSError, subprocess.SubprocessError) as error:
    if required:
      raise UserError(
        "squeue does not list the jobs of the studies in the queue: "
        f"{getattr(error, 'stderr', None) or error}"
      ) from error
    return jobs
  return {name: job for name, job in jobs.items() if job in listed}


def _read_jobs(path: pathlib.Path) -> dict[str, str]:
  if not path.exists():
    return {}
  try:
    return json_files.read(path)
  except UserError as error:
    raise UserError(
      f"{path} is damaged, so the jobs of the studies are not known; remove "
      "the file when `squeue --me` lists none of them"
    ) from error


def _first_line(path: pathlib.Path) -> str | None:
  try:
    return path.read_text(encoding="utf-8").partition("\n")[0]
  except OSError:
    return None


def _step_of(folder: pathlib.Path) -> str:
  """Returns `step 300 of 1000, `, or as much of it as is recorded."""
  try:
    with open(folder / recorder.METRICS_FILE, "rb") as file:
      file.seek(max(0, file.seek(0, 2) - _LAST_BYTES))
      steps = _STEP.findall(file.read().decode("utf-8", "ignore"))
    planned = _TRAIN_STEPS.search((folder / "config.gin").read_text("utf-8"))
  except OSError:
    return ""
  if not steps:
    return ""
  of = f" of {planned.group(1)}" if planned else ""
  return f"step {steps[-1]}{of}, "
