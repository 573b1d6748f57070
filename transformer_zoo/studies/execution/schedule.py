"""The order of the runs of studies: each once, after the run it starts from."""

from collections.abc import Callable, Mapping, Sequence
import pathlib
import time

from transformer_zoo.studies.design import plan
from transformer_zoo.studies.execution import outcome
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.launchers import Launcher
from transformer_zoo.studies.execution.time_left import TimeLeft
from transformer_zoo.training.monitoring.progress import duration


class Schedule:
  """Hands runs to a launcher and says how far it is.

  What another launcher trains is waited for; what that one fails at is not
  tried again, what it leaves unfinished is.
  """

  def __init__(
    self,
    runs: Sequence[plan.Run],
    launcher: Launcher,
    say: Callable[[str], None],
    names: Mapping[pathlib.Path, str],
    time_left: TimeLeft,
  ):
    """Takes runs.

    Args:
      runs: the distinct runs of studies, in their order.
      launcher: trains them.
      say: told how far it is.
      names: what runs are called, by their folders.
      time_left: tells how long the rest takes.
    """
    self._numbers = {run.folder: n for n, run in enumerate(runs, start=1)}
    self._todo = {run.folder: run for run in runs}
    self._phases = {run.folder: run.phase for run in runs}
    self._launcher = launcher
    self._say = say
    self._names = names
    self._started = {}  # Folder -> run and when it began.
    self._elsewhere = set()  # Folders where others were seen to train.
    self._time_left = time_left
    self._done = 0
    self._failures = {}

  def run(self) -> dict[pathlib.Path, str]:
    """Trains what is not finished.

    Returns:
      Why runs failed or were not run, by their folders.
    """
    while self._todo or self._started:
      for run in list(self._todo.values()):
        if self._launcher.has_room():
          self._consider(run)
      for run, error in self._launcher.ended():
        self._end(run, error)
    return self._failures

  def _consider(self, run: plan.Run) -> None:
    """Starts a run, or tells what became of it, unless it has to wait."""
    for start in run.starts:
      if start in self._failures:
        self._fail(run, f"not run, because {self._phases[start]} failed")
        return
      if start in self._todo or start in self._started:
        return
    came = standing.of_folder(run.folder)
    if came.state == standing.FINISHED:
      del self._todo[run.folder]
      self._finish(run)
      self._say(f"{self._head(run)}  reused ({self._progress()})")
    elif came.state == standing.RUNNING:
      self._wait(run, came.reason)
    elif came.state == standing.FAILED and run.folder in self._elsewhere:
      self._fail(run, came.reason)
    else:
      self._start(run)

  def _start(self, run: plan.Run) -> None:
    self._say(self._head(run))
    del self._todo[run.folder]
    self._started[run.folder] = run, time.monotonic()
    self._launcher.start(run)

  def _wait(self, run: plan.Run, who: str) -> None:
    if run.folder not in self._elsewhere:
      self._say(f"{self._head(run)}  trained by another launcher: {who}")
    self._elsewhere.add(run.folder)

  def _end(self, run: plan.Run, error: Exception | None) -> None:
    _, began = self._started.pop(run.folder)
    if isinstance(error, single_run.Elsewhere):
      self._todo[run.folder] = run
    elif error is not None:
      self._fail(run, single_run.reason(error))
    else:
      took = time.monotonic() - began
      self._finish(run, took)
      self._say(
        f"{self._head(run)}  finished ({duration(took)}; {self._progress()}"
        f"{self._about_left()})"
      )

  def _fail(self, run: plan.Run, reason: str) -> None:
    self._todo.pop(run.folder, None)
    self._failures[run.folder] = reason
    how = "" if reason.startswith("not run") else "failed: "
    self._say(f"{self._head(run)}  {how}{reason}")

  def _finish(self, run: plan.Run, took: float = 0.0) -> None:
    self._done += 1
    seconds = outcome.read_result(run.folder).get("seconds", took)
    self._time_left.add(run, seconds)

  def _head(self, run: plan.Run) -> str:
    number = self._numbers[run.folder]
    return f"run {number} of {len(self._numbers)}: {self._names[run.folder]}"

  def _progress(self) -> str:
    if not self._todo and not self._started:
      return "all done"
    failed = f"; {len(self._failures)} failed" if self._failures else ""
    return f"{self._done} of {len(self._numbers)} done{failed}"

  def _about_left(self) -> str:
    seconds = [self._time_left.of(run) for run in self._todo.values()]
    for run, began in self._started.values():
      gone = time.monotonic() - began
      seconds.append(max(0.0, self._time_left.of(run) - gone))
    if not seconds:
      return ""
    at_once = min(self._launcher.at_once, len(seconds))
    return f"; about {duration(sum(seconds) / at_once)} left"
