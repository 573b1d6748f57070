"""About how long the runs of studies still take, told while they train."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import functools
import os
import pathlib
import statistics

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import estimates
from transformer_zoo.studies.execution import known_costs
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.speeds import Speeds

# Runs that are like one in all of these take as long for their weight; if none
# has ended, those that are like it in the next of them.
_ALIKE = (("phase", "group", "row"), ("phase", "group"), ("phase",))

Weights = Mapping[pathlib.Path, float]


def weights(
  runs: Iterable[plan.Run],
  speeds_file: pathlib.Path,
  search_paths: Sequence[str | os.PathLike[str]] = (),
  processes: int = 1,
) -> Weights:
  """What the seconds of runs are in proportion to, by their folders.

  Those that a plan would tell by the recorded speeds of this machine; where it
  knows none, the FLOPs of training.

  Args:
    runs: each after those that it starts from.
    speeds_file: what a plan or runs have recorded; it need not exist.
    search_paths: folders for gin files.
    processes: how many runs are trained at once.

  Returns:
    The weights, without those of runs of which nothing is known.
  """
  try:
    found = estimates.jobs(
      runs, search_paths, costs_file=speeds_file.with_name(known_costs.FILE)
    )
  except UserError:  # A run that cannot be trained; it will be told.
    return {}
  # The runs that have ended show how long the others take for their weight.
  jobs = [dataclasses.replace(job, state=standing.NOT_RUN) for job in found]
  timed = durations.with_seconds(jobs, Speeds(speeds_file), processes)
  if all(job.seconds is not None for job in timed):
    return {job.run.folder: job.seconds for job in timed}
  return {job.run.folder: job.costs.flops for job in jobs if job.costs}


class TimeLeft:
  """Tells it by the runs that have ended, in proportion to their weights."""

  def __init__(self, weigh: Callable[[], Weights]):
    """Weighs nothing yet.

    Args:
      weigh: gives the weights of runs; it is called when they are needed.
    """
    self._weigh = functools.cache(weigh)
    self._ended: list[tuple[plan.Run, float]] = []

  def add(self, run: plan.Run, seconds: float) -> None:
    """Takes a run that has ended, and how long it took."""
    self._ended.append((run, seconds))

  def of(self, run: plan.Run) -> float:
    """About how many seconds a run takes; one at least has ended."""
    weights, alike = self._weigh(), self._alike(run)
    known = [(weights[r.folder], s) for r, s in alike if r.folder in weights]
    if run.folder in weights and known:
      return weights[run.folder] * (
        sum(seconds for _, seconds in known)
        / sum(weight for weight, _ in known)
      )
    # What has no weight among others that do is an evaluation, which is short.
    choose = min if weights else statistics.mean
    return choose(seconds for _, seconds in alike)

  def _alike(self, run: plan.Run) -> list[tuple[plan.Run, float]]:
    """The runs that have ended and are most like a run."""

    def like(other, names):
      return all(getattr(other, name) == getattr(run, name) for name in names)

    for names in _ALIKE:
      found = [(r, seconds) for r, seconds in self._ended if like(r, names)]
      if found:
        return found
    return self._ended
