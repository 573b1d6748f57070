"""How long a study's runs will take on this machine."""

import collections
from collections.abc import Iterable, Sequence
import dataclasses
import heapq
import math
import statistics

from transformer_zoo.studies.execution.estimates import Job
from transformer_zoo.studies.execution.speeds import Kind
from transformer_zoo.studies.execution.speeds import Speed
from transformer_zoo.studies.execution.speeds import Speeds

MEASURED = "measured"
REHEARSED = "rehearsed"
SCALED = "scaled by FLOPs"


def with_seconds(
  planned: Sequence[Job], speeds: Speeds, processes: int = 1
) -> list[Job]:
  """The same with the seconds that are left of each.

  Args:
    planned: the runs, in their order.
    speeds: what is known of this machine.
    processes: how many of them train at once: each has to begin its programs
      once.
  """
  forecast = _Forecast(planned, speeds, processes)
  return [forecast.of(job) for job in planned]


def elapsed(planned: Iterable[Job], processes: int = 1) -> float | None:
  """Seconds until all have ended; None where those of a run are not known.

  Args:
    planned: with seconds, each after those that it starts from.
    processes: how many runs are trained at once, each when what it starts from
      has ended.
  """
  todo = {job.run.folder: job for job in planned if job.is_left}
  if any(job.seconds is None for job in todo.values()):
    return None
  now, running = 0.0, []  # A heap of ends and folders.
  while todo or running:
    unfinished = todo.keys() | {folder for _, folder in running}
    for job in list(todo.values()):
      if len(running) < processes and unfinished.isdisjoint(job.run.starts):
        heapq.heappush(running, (now + job.seconds, job.run.folder))
        del todo[job.run.folder]
    now, _ = heapq.heappop(running)
  return now


class _Forecast:
  """Tells the seconds of runs, in their order."""

  def __init__(self, planned: Iterable[Job], speeds: Speeds, processes: int):
    self._speeds = speeds
    self._processes = processes
    self._begun = collections.Counter()  # How many runs of a kind have begun.
    self._of_phase = collections.defaultdict(set)  # Programs.
    for job in planned:
      self._of_phase[job.run.phase].add(job.kind.program)

  def of(self, job: Job) -> Job:
    """A job with its seconds."""
    if not job.is_left:
      return dataclasses.replace(job, seconds=0.0, source=MEASURED)
    of_program = self._speeds.matching(program=job.kind.program)
    known = of_program or nearest(job, self._of_same_phase(job))
    if not known or (job.costs is None and not of_program):
      return job
    seconds = self._beginning(job.kind)
    self._begun[job.kind] += 1
    if job.costs is None:
      seconds += self._evaluation(job) * len(job.run.starts)
    else:
      seconds += job.costs.steps * step_by_flops(job, known)
      seconds += job.costs.evaluations * self._evaluation(job)
      seconds += job.costs.saves * _median(known, "save")
    return dataclasses.replace(
      job, seconds=seconds, source=_source(known[0], bool(of_program))
    )

  def _of_same_phase(self, job: Job) -> list[Speed]:
    """Speeds of the phase's programs; of all where none of them is known."""
    programs = self._of_phase[job.run.phase]
    everything = self._speeds.matching()
    return [s for s in everything if s.kind.program in programs] or everything

  def _beginning(self, kind: Kind) -> float:
    """Seconds before a run's first step.

    The first run of a kind in a process finds its programs on disk, if anything
    at all has run them before; the others have them in memory.
    """
    of_program = self._speeds.matching(program=kind.program)
    same = self._speeds.matching(kind.program, kind.mixture) or of_program
    if same:
      choose = max if self._begun[kind] < self._processes else min
      return choose(speed.beginning for speed in same)
    if any(kind.program == other.program for other in self._begun):
      return min(speed.beginning for speed in self._speeds.matching())
    compiled = self._speeds.matching(compiled=True)
    return max(speed.beginning for speed in compiled)

  def _evaluation(self, job: Job) -> float:
    """Seconds of an evaluation, by other programs' where its is not known.

    It takes as much longer as the steps do. It is 0 where neither the program
    nor the mixture is known.
    """
    kind, speeds = job.kind, self._speeds
    if same := speeds.matching(kind.program, kind.mixture):
      return _median(same, "evaluation")
    of_program = speeds.matching(program=kind.program)
    of_mixture = speeds.matching(mixture=kind.mixture)
    if not of_mixture:
      return _median(of_program, "evaluation")
    if of_program:
      step = _median(of_program, "step")
    elif job.costs:
      step = step_by_flops(job, nearest(job, of_mixture))
    else:
      return _median(of_mixture, "evaluation")
    return statistics.median(s.evaluation * step / s.step for s in of_mixture)


def nearest(job: Job, speeds: Sequence[Speed]) -> list[Speed]:
  """Those whose steps have most nearly as many FLOPs as the job's."""
  if job.costs is None:
    return []

  def distance(speed):
    return abs(math.log(speed.flops / job.step_flops))

  comparable = [speed for speed in speeds if speed.flops]
  least = min(map(distance, comparable), default=0.0)
  return [speed for speed in comparable if distance(speed) == least]


def step_by_flops(job: Job, known: Sequence[Speed]) -> float:
  """Seconds of a step, by how long others take for their FLOPs."""
  return statistics.median(
    speed.step * (job.step_flops / speed.flops if speed.flops else 1.0)
    for speed in known
  )


def _source(speed: Speed, of_program: bool) -> str:
  """Where seconds come from: a speed, of the job's own program or not."""
  own = REHEARSED if speed.rehearsed else MEASURED
  source = own if of_program else SCALED
  if speed.cores is None:
    return source
  return f"{source} with {speed.cores} core{'s' * (speed.cores > 1)}"


def _median(speeds: Sequence[Speed], name: str) -> float:
  values = [getattr(speed, name) for speed in speeds]
  return statistics.median(values) if values else 0.0
