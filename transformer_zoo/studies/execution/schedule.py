"""The schedule of runs: each trained once, after the runs that it awaits."""

from collections.abc import Callable, Mapping, Sequence
import pathlib
import time

from transformer_zoo.studies.design.planned_run import Run
from transformer_zoo.studies.execution import choices
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution.durations import Durations
from transformer_zoo.studies.execution.launchers import Launcher
from transformer_zoo.training.monitoring.progress import duration

_SHOW_SECONDS = 5.0


class Schedule:
  """Hands runs to a launcher and reports the progress.

  A run that another launcher trains is waited for. It is trained here if that
  launcher leaves it unfinished, but not if it fails there.
  """

  def __init__(
    self,
    runs: Sequence[Run],
    launcher: Launcher,
    say: Callable[[str], None],
    names: Mapping[pathlib.Path, str],
    known: Durations,
    on_done: Callable[[Run], None] = lambda run: None,
    show: Callable[[str], None] = lambda text: None,
  ):
    """Starts nothing yet.

    Args:
      runs: The distinct runs of studies, in their order.
      launcher: The launcher that trains them.
      say: The function that prints a message.
      names: The names of the runs in messages, by their folders.
      known: The predictions from which the time left is computed.
      on_done: The function that is called with each run that is finished.
      show: The function that is called every few seconds with the progress.
    """
    self._numbers = {run.folder: n for n, run in enumerate(runs, start=1)}
    self._todo = {run.folder: run for run in runs}
    self._phases = {run.folder: run.phase for run in runs}
    self._launcher = launcher
    self._say = say
    self._names = names
    self._started = {}  # Folder -> run and the time of its start.
    self._elsewhere = set()  # Folders in which other launchers trained.
    self._known = known
    self._on_done = on_done
    self._show = show
    self._shown = float("-inf")
    self._done = 0
    self._failures = {}

  def run(self) -> dict[pathlib.Path, str]:
    """Trains the runs that are not finished.

    Returns:
      The reasons of runs that failed or were not run, by their folders.
    """
    while self._todo or self._started:
      for run in list(self._todo.values()):
        if self._launcher.has_room():
          self._consider(run)
      for run, error in self._launcher.ended():
        self._end(run, error)
      if time.monotonic() - self._shown > _SHOW_SECONDS:
        self._show(f"{self._progress()}{self._about_left()}")
        self._shown = time.monotonic()
    return self._failures

  def _consider(self, run: Run) -> None:
    """Starts a run, or reports its end, unless it has to wait."""
    for start in run.awaited:
      if start in self._failures:
        self._fail(run, f"not run, because {self._phases[start]} failed")
        return
      if start in self._todo or start in self._started:
        return
    found = run_progress.read(choices.resolved(run).folder)
    if found.state == run_progress.FINISHED:
      del self._todo[run.folder]
      self._done += 1
      self._say(f"{self._head(run)}  reused ({self._progress()})")
      self._on_done(run)
    elif found.state == run_progress.RUNNING:
      self._wait(run, found.reason)
    elif found.state == run_progress.FAILED and run.folder in self._elsewhere:
      self._fail(run, found.reason)
    else:
      self._start(run)

  def _start(self, run: Run) -> None:
    self._say(self._head(run))
    del self._todo[run.folder]
    self._started[run.folder] = run, time.monotonic()
    self._launcher.start(run)

  def _wait(self, run: Run, who: str) -> None:
    if run.folder not in self._elsewhere:
      self._say(f"{self._head(run)}  trained by another launcher: {who}")
    self._elsewhere.add(run.folder)

  def _end(self, run: Run, error: Exception | None) -> None:
    _, began = self._started.pop(run.folder)
    if isinstance(error, single_run.Elsewhere):
      self._todo[run.folder] = run
    elif error is not None:
      self._fail(run, single_run.reason(error))
    else:
      took = time.monotonic() - began
      self._done += 1
      self._known.add(choices.resolved(run), took)
      self._say(
        f"{self._head(run)}  finished ({duration(took)}; {self._progress()}"
        f"{self._about_left()})"
      )
      self._on_done(run)

  def _fail(self, run: Run, reason: str) -> None:
    self._todo.pop(run.folder, None)
    self._failures[run.folder] = reason
    how = "" if reason.startswith("not run") else "failed: "
    self._say(f"{self._head(run)}  {how}{reason}")

  def _head(self, run: Run) -> str:
    number = self._numbers[run.folder]
    return f"run {number} of {len(self._numbers)}: {self._names[run.folder]}"

  def _progress(self) -> str:
    if not self._todo and not self._started:
      return "all done"
    failed = f"; {len(self._failures)} failed" if self._failures else ""
    return f"{self._done} of {len(self._numbers)} done{failed}"

  def _about_left(self) -> str:
    """Returns the predicted time left as text, "" if it is unknown."""
    now = time.monotonic()
    running = [(run, now - began) for run, began in self._started.values()]
    left = self._known.left(running, self._todo.values())
    if not left:
      return ""
    seconds = durations.together(left, self._launcher.at_once)
    return f"; about {duration(seconds)} left"
