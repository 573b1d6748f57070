"""Predicted durations of runs: FLOPs over the rate of finished runs.

  seconds of a run = start + FLOPs of the run / FLOPs per second + evaluation

All three come from the finished runs that are most like the run: runs of its
phase and group, else of its phase, else all. The rate counts training and
saving; compiling is not predicted. A run that trains is predicted from its own
steps.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import functools
import heapq
import pathlib
import statistics
import time

from transformer_zoo import environment
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.execution import choices
from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.execution import result_file
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.costs import Job


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """The duration and the size of a finished run.

  Attributes:
    phase: The name of the phase.
    group: The name of the group, "" for all; None if it is unknown.
    flops: The FLOPs that the model needed; None for an evaluation.
    start: The time before the first step without compiling, in seconds.
    seconds: The time of training and saving, in seconds; of an evaluation, its
      whole time.
    evaluation: The time of the evaluations of a training run, in seconds.
  """

  phase: str
  group: str | None
  flops: int | None
  start: float
  seconds: float
  evaluation: float = 0.0


class Durations:
  """Predicts durations; learns from each run that finishes."""

  def __init__(
    self,
    flops: Callable[[], Mapping[pathlib.Path, int]],
    finished: Iterable[FinishedRun] = (),
  ):
    """Stores finished runs and counts nothing yet.

    Args:
      flops: A function that returns the FLOPs of runs by their folders. It is
        called once, with the first prediction.
      finished: The runs that have finished on this machine before.
    """
    self._flops = functools.cache(flops)
    self._finished = list(finished)

  @property
  def num_finished(self) -> int:
    """The number of finished runs that predictions come from."""
    return len(self._finished)

  def add(self, run: planned_run.Run, took: float) -> None:
    """Adds a run that has just finished.

    Args:
      run: The run, whose folder contains its result.
      took: The measured duration in seconds, for a result without one.
    """
    result = {"seconds": took} | result_file.read(run.folder)
    self._finished.append(_finished_run(run.phase, run.group, result))

  def seconds(self, run: planned_run.Run) -> float | None:
    """Returns the predicted duration of a run, None if it is unknown.

    Runs without FLOPs, which are evaluations, are predicted to last as long as
    other evaluations.
    """
    if not self._finished:
      return None
    flops = self._flops().get(run.folder)
    if flops is None:
      others = [one for one in self._finished if one.flops is None]
      alike = _most_alike(run, others)
      return statistics.mean(one.seconds for one in alike) if alike else None
    alike = _most_alike(run, [one for one in self._finished if one.flops])
    seconds = sum(one.seconds for one in alike)
    if not seconds:
      return None
    rate = sum(one.flops for one in alike) / seconds
    return (
      statistics.median(one.start for one in alike)
      + flops / rate
      + statistics.mean(one.evaluation for one in alike)
    )

  def left(
    self,
    running: Iterable[tuple[planned_run.Run, float]],
    waiting: Iterable[planned_run.Run],
  ) -> list[tuple[planned_run.Run, float]] | None:
    """Returns the runs that have not ended and the time that each still takes.

    Evaluations of unknown duration count as 0.

    Args:
      running: The runs that have started, and the time since then in seconds.
      waiting: The runs that have not started.

    Returns:
      Runs and seconds, first those that are running; None if the duration of a
      training run is unknown.
    """
    left, speeds = [], []
    for run, gone in running:
      folder = choices.resolved(run).folder
      steps = run_progress.steps_of(folder, time.time() - gone)
      if steps is None:
        whole = self.seconds(run)
        left.append((run, whole and max(0.0, whole - gone)))
        continue
      left.append((run, self._left_of(run, steps)))
      if flops := self._flops().get(run.folder):
        took = steps.planned * steps.seconds
        speeds.append(FinishedRun(run.phase, run.group, flops, 0.0, took))
    # Before a run has finished, what is running says how long the others take.
    known = self if self._finished else Durations(self._flops, speeds)
    left += [(run, known.seconds(run)) for run in waiting]
    if any(seconds is None and r.command == "train" for r, seconds in left):
      return None
    return [(run, seconds or 0.0) for run, seconds in left]

  def _left_of(self, run: planned_run.Run, steps: run_progress.Steps) -> float:
    """Returns the time until a run ends that is training."""
    alike = _most_alike(run, [one for one in self._finished if one.flops])
    evaluation = statistics.mean([one.evaluation for one in alike] or [0.0])
    left = (steps.planned - steps.done) * steps.seconds
    left += (1 - steps.evaluated / steps.planned) * evaluation
    return max(0.0, left - steps.age)


def _most_alike(
  run: planned_run.Run, finished: Iterable[FinishedRun]
) -> list[FinishedRun]:
  finished = list(finished)
  of_phase = [one for one in finished if one.phase == run.phase]
  of_group = [one for one in of_phase if one.group == run.group]
  return of_group or of_phase or finished


def finished_here(
  pool: pathlib.Path,
  runs: Iterable[planned_run.Run],
  processes: int = 1,
) -> list[FinishedRun]:
  """Reads the runs of a pool that have finished on this machine.

  Runs of processes with as many cores or accelerators as the next ones will
  have are preferred; if there are none, all runs of this machine count.

  Args:
    pool: The folder of all runs, which need not exist.
    runs: The runs whose groups are known.
    processes: The number of processes that will share this machine.
  """
  groups = {
    one.folder.name: run.group
    for run in runs
    for one in (run.choice.runs if run.choice else [run])
  }
  here = environment.describe_environment()
  found, with_same_share = [], []
  for path in sorted(pool.glob(f"*/{run_progress.RESULT_FILE}")):
    folder = path.parent
    try:
      machine = json_files.read(folder / run_layout.ENVIRONMENT)
      result = json_files.read(path)
      if _machine(machine) != _machine(here):
        continue
      phase = folder.name.rpartition("-")[0]
      finished = _finished_run(phase, groups.get(folder.name), result)
      share = _processors(machine)
    except (UserError, KeyError, TypeError):
      continue  # Another version wrote the files, or one is being written.
    found.append(finished)
    if share == max(1, _processors(here) // processes):
      with_same_share.append(finished)
  return with_same_share or found


def _finished_run(
  phase: str, group: str | None, result: Mapping
) -> FinishedRun:
  start, compilation, evaluation = (
    result.get("seconds_by_part", {}).get(part, 0.0)
    for part in ("start", "compilation", "evaluation")
  )
  return FinishedRun(
    phase=phase,
    group=group,
    flops=result.get("budget", {}).get("flops"),
    start=start,
    seconds=result["seconds"] - start - compilation - evaluation,
    evaluation=evaluation,
  )


def _machine(found: Mapping) -> tuple:
  """Returns the properties by which machines of different speed differ."""
  return found["devices"]["kind"], found["memory_gib"], found["platform"]


def _processors(found: Mapping) -> int:
  """Returns the number of accelerators of a process, else of its cores."""
  on_cpu = found["devices"]["kind"] == "cpu"
  return found["cpu_count"] if on_cpu else found["devices"]["count"]


def with_seconds(jobs: Iterable[Job], durations: Durations) -> list[Job]:
  """Returns jobs with their predicted durations."""
  return [
    dataclasses.replace(
      job, seconds=durations.seconds(job.run) if job.is_left else 0.0
    )
    for job in jobs
  ]


def elapsed(jobs: Iterable[Job], processes: int = 1) -> float | None:
  """Returns the seconds until all jobs have ended.

  Args:
    jobs: The jobs with predicted durations, each after those it starts from.
      Evaluations of unknown duration count as 0.
    processes: The number of runs that train at the same time, each as soon as
      the runs that it awaits have ended.

  Returns:
    The time in seconds; None if the duration of a training run is unknown.
  """
  left = [job for job in jobs if job.is_left]
  if any(job.seconds is None and job.costs for job in left):
    return None
  return together([(job.run, job.seconds or 0.0) for job in left], processes)


def together(
  left: Iterable[tuple[planned_run.Run, float]], processes: int
) -> float:
  """Returns the seconds until all runs have ended.

  Args:
    left: The runs that have not ended and the time that each still takes, in
      the order in which they start; first those that are running.
    processes: The number of runs that train at the same time, each as soon as
      the runs that it awaits have ended.
  """
  todo = {run.folder: (run, seconds) for run, seconds in left}
  now, running = 0.0, []  # A heap of ends and folders.
  while todo or running:
    unfinished = todo.keys() | {folder for _, folder in running}
    for folder, (run, seconds) in list(todo.items()):
      if len(running) < processes and unfinished.isdisjoint(run.awaited):
        heapq.heappush(running, (now + seconds, folder))
        del todo[folder]
    now, _ = heapq.heappop(running)
  return now
