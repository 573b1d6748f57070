"""The plan of studies as text and as JSON: what runs, what it costs."""

from collections.abc import Callable, Iterable, Sequence
import contextlib
import dataclasses
import json
import sys
from typing import Any

from transformer_zoo.ablations import estimates
from transformer_zoo.ablations import plan
from transformer_zoo.ablations.estimates import Job
from transformer_zoo.ablations.estimates import UNKNOWN
from transformer_zoo.ablations.request import Request
from transformer_zoo.experiment.forecast_report import aligned
from transformer_zoo.forecast import topologies
from transformer_zoo.training.progress import duration
from transformer_zoo.training.progress import quantity

_COUNTS = ("steps", "input_tokens", "target_tokens", "flops")
_HEAD = (
  *("row", "phase", "runs", "shared", "parameters", "trained", "steps"),
  *("input tokens", "target tokens", "FLOPs", "time"),
)
_NOTES = (
  "tokens: places for them, padding included; FLOPs: three times the matrix "
  "products of forward passes; time: what is left, one run after the other",
)


def show(request: Request, topology: str | None, in_json: bool) -> None:
  """Prints the plan of what was asked for.

  Args:
    request: the studies.
    topology: a TPU slice to tell of too.
    in_json: whether JSON is printed.

  Raises:
    UserError: a study cannot be run as it is written, or there is no such
      slice.
  """
  if topology is not None:
    topologies.chips_of(topology)  # A mistake is told before anything else.
  with contextlib.redirect_stdout(sys.stderr):  # It is for the plan alone.
    planned = request.planned(prepare=False)
    studies = [(each.study.name, each.runs) for each in planned]
    runs = [run for each in planned for run in each.runs]
    with request.data_folders():
      jobs = estimates.jobs(runs, request.search_paths, topology)
      jobs = estimates.with_seconds(
        jobs,
        output_dir=request.root,
        cache=request.cache,
        search_paths=request.search_paths,
      )
  if in_json:
    print(json.dumps(as_json(studies, jobs, topology), indent=2))
  else:
    print(as_text(studies, jobs, topology))


def as_json(
  studies: Sequence[tuple[str, Sequence[plan.Run]]],
  jobs: Sequence[Job],
  topology: str | None = None,
) -> dict[str, Any]:
  """All of it.

  Args:
    studies: name and runs of each.
    jobs: the distinct runs of all.
    topology: the TPU slice that was asked about.
  """
  return {
    "studies": [
      {"study": name, "runs": [_run(run) for run in runs]}
      for name, runs in studies
    ],
    "runs": [_job(job) for job in jobs],
    "total": totals(jobs),
    "topology": topology,
  }


def totals(jobs: Sequence[Job]) -> dict[str, Any]:
  """What all of them cost together, and the seconds that are left.

  Seconds are None where those of a run are not known.
  """
  left = [job for job in jobs if job.is_left]
  bounds = [job.on_slice for job in left if job.on_slice is not None]
  total = {"runs": len(jobs), "left": len(left)}
  for name in _COUNTS:
    total[name] = _sum(jobs, lambda job, name=name: getattr(job.costs, name))
  seconds = [job.seconds for job in left]
  total["seconds"] = None if None in seconds else sum(seconds)
  if bounds:
    total["slice_seconds"] = {
      "at_best": sum(bound.at_best.seconds for bound in bounds),
      "in_turn": sum(bound.in_turn.seconds for bound in bounds),
    }
  return total


def as_text(
  studies: Sequence[tuple[str, Sequence[plan.Run]]],
  jobs: Sequence[Job],
  topology: str | None = None,
) -> str:
  """A table for each study, a line for each row and phase, and the totals.

  A run that several rows or studies have is counted where it comes first.

  Args:
    studies: as of `as_json`.
    jobs: likewise.
    topology: likewise.
  """
  by_folder = {job.run.folder: job for job in jobs}
  seen = set()
  sections = []
  for name, runs in studies:
    table = [_HEAD]
    for (row, phase), group in _grouped(runs).items():
      own = {run.folder: by_folder[run.folder] for run in group}
      new = [job for folder, job in own.items() if folder not in seen]
      seen |= own.keys()
      table.append(_line(row, phase, list(own.values()), new, len(group)))
    sections.append("\n".join([name, *aligned(table)]))
  return "\n\n".join([*sections, "\n".join(_summary(jobs, topology))])


def _grouped(runs: Iterable[plan.Run]) -> dict[tuple[str, str], list]:
  grouped = {}
  for run in runs:
    grouped.setdefault((run.row, run.phase), []).append(run)
  return grouped


def _line(row, phase, jobs, new, count) -> tuple[str, ...]:
  """Sizes are those of a run, sums those of the runs that are new here."""
  costs = [job.costs for job in jobs if job.costs is not None]

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
    *(row, phase, str(len(new)), str(count - len(new))),
    *map(of_one, ("parameters", "trained_parameters", "steps")),
    *map(together, ("input_tokens", "target_tokens", "flops")),
    time,
  )


def _summary(jobs: Sequence[Job], topology: str | None) -> list[str]:
  total = totals(jobs)
  done = total["runs"] - total["left"]
  line = f"{total['runs']} distinct runs, {done} of them finished; left: "
  line += (
    "a time that is not known"
    if total["seconds"] is None
    else (f"about {duration(total['seconds'])} on this machine")
  )
  sources = {}
  for job in jobs:
    if job.is_left:
      sources.setdefault(job.source, []).append(job)
  told = ", ".join(f"{len(of)} {how}" for how, of in sources.items())
  lines = [f"{line} ({told})" if told else line]
  if "slice_seconds" in total:
    bounds = total["slice_seconds"]
    lines.append(
      f"steps on {topology}: {duration(bounds['at_best'])} at best, "
      f"{duration(bounds['in_turn'])} without any overlap, by its roofline; "
      "collectives, evaluation and compiling apart"
    )
  if UNKNOWN in sources:
    lines.append("time unknown of: " + sources[UNKNOWN][0].run.name)
  return [*lines, *_NOTES]


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
