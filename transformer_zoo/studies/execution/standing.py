"""How far a run has come, told by what lies in its folder.

Whoever looks (a launcher, its jobs on other machines, `zoo report`) reads the
same files, so nobody has to keep a list that a killed process leaves wrong.
"""

import dataclasses
import pathlib
import re

from transformer_zoo.processes import claims
from transformer_zoo.training.monitoring import recorder

RESULT_FILE = "result.json"
ERROR_FILE = "error.txt"

FINISHED = "finished"
RUNNING = "running"
QUEUED = "queued"
FAILED = "failed"
INTERRUPTED = "interrupted"
NOT_RUN = "not run"
# In the order in which a summary names them.
STATES = (FINISHED, RUNNING, QUEUED, FAILED, INTERRUPTED, NOT_RUN)

_LAST_BYTES = 1 << 16
_STEP = re.compile(r'"step": (\d+)')
_TRAIN_STEPS = re.compile(r"^TRAIN_STEPS = (\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Standing:
  """How far a run has come.

  Attributes:
    state: one of `STATES`.
    reason: what there is to say about it; empty where it is finished.
    blocked: whether a run that it needs has failed.
  """

  state: str
  reason: str = ""
  blocked: bool = False


def of_folder(folder: pathlib.Path, job: str | None = None) -> Standing:
  """Tells how far the run in a folder has come.

  Args:
    folder: the run's folder; it need not exist.
    job: the job that waits in a queue to train it, if any.
  """
  owner = claims.owner(folder)
  if owner is not None:
    return Standing(RUNNING, f"{_progress(folder)}{owner}")
  # First: a run that has failed may have been finished by its own command.
  if (folder / RESULT_FILE).exists():
    return Standing(FINISHED)
  error = _first_line(folder / ERROR_FILE)
  if error is not None:
    return Standing(FAILED, error)
  if job is not None:
    return Standing(QUEUED, f"job {job}")
  last = claims.last_owner(folder)
  if last is None:
    return Standing(NOT_RUN)
  return Standing(
    INTERRUPTED,
    f"interrupted, {_progress(folder)}{last}; the same command goes on",
  )


def after(run: Standing, start: Standing, phase: str) -> Standing:
  """The standing of a run that starts from another one.

  Args:
    run: its own.
    start: that of the run it starts from.
    phase: the phase which that one is.
  """
  if run.state != NOT_RUN or start.state == FINISHED:
    return run
  if start.state == FAILED or start.blocked:
    return Standing(NOT_RUN, f"not run, because {phase} failed", blocked=True)
  return Standing(NOT_RUN, f"waits for {phase}")


def _first_line(path: pathlib.Path) -> str | None:
  try:
    return path.read_text(encoding="utf-8").partition("\n")[0]
  except OSError:
    return None


def _progress(folder: pathlib.Path) -> str:
  """`step 300 of 1000, `, as far as it is recorded."""
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
