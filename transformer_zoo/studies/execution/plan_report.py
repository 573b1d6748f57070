"""The plan of studies as text and as JSON: what runs, what it costs."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
import dataclasses
from typing import Any

from transformer_zoo.forecast.report import aligned
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution.estimates import Job
from transformer_zoo.studies.execution.estimates import UNKNOWN
from transformer_zoo.training.monitoring.progress import duration
from transformer_zoo.training.monitoring.progress import quantity

_COUNTS = ("steps", "input_tokens", "target_tokens", "flops")
_HEAD = (
  *("row", "phase", "runs", "shared", "parameters", "trained", "steps"),
  *("input tokens", "target tokens", "FLOPs", "time"),
)
_NOTES = (
  "tokens: places for them, padding included; FLOPs: three times the matrix "
  "products of forward passes; time: what is left, one run after the other",
)
_COSTLIEST = 3  # Rows that are named.


@dataclasses.dataclass(frozen=True)
class Told:
  """What a plan says.

  Attributes:
    studies: name and runs of each.
    jobs: the distinct runs of all, with seconds.
    topology: the TPU slice that was asked about.
    processes: how many runs are trained at once.
    processors: how many each has, and what they are called.
  """

  studies: Sequence[tuple[str, Sequence[plan.Run]]]
  jobs: Sequence[Job]
  topology: str | None = None
  processes: int = 1
  processors: tuple[int, str] = (1, "core")

  def lines(
    self,
  ) -> Iterator[tuple[str, str, str, Sequence[Job], Sequence[Job]]]:
    """Yields study, row and phase, with its runs and those that are new there.

    A run that several rows or studies have is new where it comes first.
    """
    by_folder = {job.run.folder: job for job in self.jobs}
    seen = set()
    for study, runs in self.studies:
      grouped = collections.defaultdict(list)
      for run in runs:
        grouped[run.row, run.phase].append(by_folder[run.folder])
      for (row, phase), own in grouped.items():
        new = {job.run.folder: job for job in own if job.run.folder not in seen}
        seen |= new.keys()
        yield study, row, phase, own, list(new.values())


def as_json(told: Told) -> dict[str, Any]:
  """All of it."""
  return {
    "studies": [
      {"study": name, "runs": [_run(run) for run in runs]}
      for name, runs in told.studies
    ],
    "runs": [_job(job) for job in told.jobs],
    "total": totals(told),
    "topology": told.topology,
  }


def totals(told: Told) -> dict[str, Any]:
  """What all of them cost together, and the seconds that are left.

  `seconds` are those of all runs, `elapsed_seconds` until the last one ends,
  both None where those of a run are not known. `costliest` has the rows with
  most of them.
  """
  left = [job for job in told.jobs if job.is_left]
  bounds = [job.on_slice for job in left if job.on_slice is not None]
  total = {"runs": len(told.jobs), "left": len(left)}
  for name in _COUNTS:
    total[name] = _sum(
      told.jobs, lambda job, name=name: getattr(job.costs, name)
    )
  total["elapsed_seconds"] = durations.elapsed(told.jobs, told.processes)
  total["seconds"] = total["processor_minutes"] = None
  if total["elapsed_seconds"] is not None:
    number, kind = told.processors
    total["seconds"] = sum(job.seconds for job in left)
    total["processor_minutes"] = number * total["seconds"] / 60
    total["processors"] = {
      "kind": kind,
      "number": number,
      "processes": told.processes,
    }
    total["costliest"] = _costliest(told)
  if bounds:
    total["slice_seconds"] = {
      "at_best": sum(bound.at_best.seconds for bound in bounds),
      "in_turn": sum(bound.in_turn.seconds for bound in bounds),
    }
  return total


def _costliest(told: Told) -> list[dict[str, Any]]:
  """The rows whose runs take longest, where they are new."""
  seconds = collections.Counter()
  for study, row, _, _, new in told.lines():
    seconds[study, row] += sum(job.seconds for job in new)
  return [
    {"study": study, "row": row, "seconds": spent}
    for (study, row), spent in seconds.most_common(_COSTLIEST)
    if spent
  ]


def as_text(told: Told) -> str:
  """A table for each study, a line for each row and phase, and the totals."""
  tables = {name: [_HEAD] for name, _ in told.studies}
  for study, *line in told.lines():
    tables[study].append(_line(*line))
  sections = [
    "\n".join([name, *aligned(table)]) for name, table in tables.items()
  ]
  return "\n\n".join([*sections, "\n".join(_summary(told))])


def _line(row, phase, own, new) -> tuple[str, ...]:
  """Sizes are those of a run, sums those of the runs that are new here."""
  costs = [job.costs for job in own if job.costs is not None]

  def of_one(name):
    values = sorted({getattr(cost, name) for cost in costs})
    return " to ".join(
      f"{v:,}" for v in dict.fromkeys(values[:1] + values[-1:])
    )

  def together(name):
    return quantity(_sum(new, lambda job: getattr(job.costs, name)))

  seconds = [job.seconds for job in new]
  time = "?" if None in seconds else duration(sum(seconds))
  return (
    *(row, phase, str(len(new)), str(len(own) - len(new))),
    *map(of_one, ("parameters", "trained_parameters", "steps")),
    *map(together, ("input_tokens", "target_tokens", "flops")),
    time,
  )


def _summary(told: Told) -> list[str]:
  total = totals(told)
  done = total["runs"] - total["left"]
  left = "a time that is not known"
  if total["elapsed_seconds"] is not None:
    left = f"about {duration(total['elapsed_seconds'])} on this machine"
    left += f", {told.processes} at once" * (told.processes > 1)
  sources = collections.Counter(job.source for job in told.jobs if job.is_left)
  how = ", ".join(f"{number} {source}" for source, number in sources.items())
  line = f"{total['runs']} distinct runs, {done} of them finished; left: {left}"
  lines = [f"{line} ({how})" if how else line]
  if total["seconds"]:
    lines.append(_processor_time(told, total))
  if "slice_seconds" in total:
    bounds = total["slice_seconds"]
    lines.append(
      f"steps on {told.topology}: {duration(bounds['at_best'])} at best, "
      f"{duration(bounds['in_turn'])} without any overlap, by its roofline; "
      "collectives, evaluation and compiling apart"
    )
  if UNKNOWN in sources:
    unknown = next(job for job in told.jobs if job.source == UNKNOWN)
    lines.append(f"time unknown of: {unknown.run.name}")
  return [*lines, *_NOTES]


def _processor_time(told: Told, total) -> str:
  """How much it takes of this machine, and which rows take most."""
  number, kind = told.processors
  shares = [
    f"{row['study']} / {row['row']} {row['seconds'] / total['seconds']:.0%}"
    for row in total["costliest"]
  ]
  return (
    f"{total['processor_minutes']:,.0f} {kind} minutes in all ({number} "
    f"{kind}{'s' * (number > 1)} for each run); most take {', '.join(shares)}"
  )


def _run(run: plan.Run) -> dict[str, Any]:
  names = ("row", "seed", "group", "part", "phase", "member", "shared")
  return {name: getattr(run, name) for name in names} | {
    "folder": str(run.folder)
  }


def _job(job: Job) -> dict[str, Any]:
  return {
    "folder": str(job.run.folder),
    "name": job.run.name,
    "state": job.state,
    "costs": job.costs and dataclasses.asdict(job.costs),
    "seconds": job.seconds,
    "seconds_from": job.source,
    "slice_seconds": job.on_slice
    and {
      "at_best": job.on_slice.at_best.seconds,
      "in_turn": job.on_slice.in_turn.seconds,
    },
  }


def _sum(jobs: Iterable[Job], of: Callable[[Job], int]) -> int:
  return sum(of(job) for job in jobs if job.costs is not None)
