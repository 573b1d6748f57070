"""The plan of studies as text and as JSON: runs, costs and durations."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
import dataclasses
import json
import sys
from typing import Any

from transformer_zoo.forecast import topologies
from transformer_zoo.precompile.report import aligned
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design.request import Launch
from transformer_zoo.studies.design.request import Request
from transformer_zoo.studies.execution import costs
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution.costs import Job
from transformer_zoo.training.monitoring.progress import duration
from transformer_zoo.training.monitoring.progress import quantity

_COUNTS = ("steps", "input_tokens", "target_tokens", "flops")
_HEAD = (
  *("row", "phase", "runs", "shared", "parameters", "trained", "steps"),
  *("input tokens", "target tokens", "FLOPs", "time"),
)
_NOTES = (
  "tokens: positions of all batches, padding included; FLOPs: three times the "
  "matrix products of forward passes; time: of the runs that are left, one "
  "after the other, compiling not included",
)
_SEARCH = " (search)"
_COSTLIEST = 3  # The number of rows that are named.


@dataclasses.dataclass(frozen=True)
class PlanReport:
  """The contents of a plan.

  Attributes:
    studies: The name and the runs of each study.
    jobs: The distinct runs of all studies, with predicted durations.
    topology: The name of the TPU slice that was asked for, or None.
    processes: The number of runs that train at the same time.
    num_finished: The number of finished runs that predictions come from.
  """

  studies: Sequence[tuple[str, Sequence[planned_run.Run]]]
  jobs: Sequence[Job]
  topology: str | None = None
  processes: int = 1
  num_finished: int = 0

  def lines(
    self,
  ) -> Iterator[tuple[str, str, str, Sequence[Job], Sequence[Job]]]:
    """Yields study, row and phase, with all their jobs and the new ones.

    The search of a phase is a line of its own.

    A run that several rows or studies share is new where it is listed first.
    """
    by_folder = {job.run.folder: job for job in self.jobs}
    seen = set()
    for study, runs in self.studies:
      grouped = collections.defaultdict(list)
      for run in runs:
        phase = run.phase + _SEARCH * bool(run.alternative)
        grouped[run.row, phase].append(by_folder[run.folder])
      for (row, phase), jobs in grouped.items():
        new = {j.run.folder: j for j in jobs if j.run.folder not in seen}
        seen |= new.keys()
        yield study, row, phase, jobs, list(new.values())


def show(
  request: Request,
  launch: Launch,
  topology: str | None = None,
  in_json: bool = False,
) -> None:
  """Prints the plan of studies; prepares no data and trains nothing.

  Args:
    request: The studies.
    launch: The processes that will train them.
    topology: The name of a TPU slice whose roofline is added, or None.
    in_json: True to print JSON.

  Raises:
    UserError: If a study cannot be run as it is written, or the slice does not
      exist.
  """
  if topology is not None:
    topologies.chips_of(topology)  # Refuses a mistake before anything is read.
  with contextlib.redirect_stdout(sys.stderr):  # Keeps stdout to the plan.
    report = _report(request, launch, topology)
  print(json.dumps(as_json(report), indent=2) if in_json else as_text(report))


def _report(
  request: Request, launch: Launch, topology: str | None
) -> PlanReport:
  planned = request.planned(prepare=False)
  runs = [run for each in planned for run in each.runs]
  with request.data_folders():
    jobs = costs.jobs(
      runs, request.search_paths, topology, request.root / costs.COSTS_FILE
    )
  share = 1 if launch.is_queued else launch.jobs
  flops = {job.run.folder: job.costs.flops for job in jobs if job.costs}
  known = durations.Durations(
    lambda: flops,
    durations.finished_here(request.root / plan.POOL, runs, share),
  )
  return PlanReport(
    studies=[(each.study.name, each.runs) for each in planned],
    jobs=durations.with_seconds(jobs, known),
    topology=topology,
    processes=launch.jobs,
    num_finished=known.num_finished,
  )


def as_json(report: PlanReport) -> dict[str, Any]:
  """Returns the plan as a dictionary for JSON."""
  return {
    "studies": [
      {"study": name, "runs": [_run(run) for run in runs]}
      for name, runs in report.studies
    ],
    "runs": [_job(job) for job in report.jobs],
    "total": totals(report),
    "topology": report.topology,
  }


def totals(report: PlanReport) -> dict[str, Any]:
  """Returns the sums over all distinct runs, and the time that is left.

  `seconds` is the sum over all runs, `elapsed_seconds` the time until the last
  one ends; both are None if no run has finished on this machine. `costliest`
  lists the rows that take longest.
  """
  left = [job for job in report.jobs if job.is_left]
  bounds = [job.on_slice for job in left if job.on_slice is not None]
  total = {"runs": len(report.jobs), "left": len(left)}
  for name in _COUNTS:
    total[name] = _sum(report.jobs, lambda c, name=name: getattr(c, name))
  total["flops_left"] = _sum(left, lambda c: c.flops)
  total["elapsed_seconds"] = durations.elapsed(report.jobs, report.processes)
  total["seconds"] = None
  if total["elapsed_seconds"] is not None:
    total["seconds"] = sum(job.seconds or 0.0 for job in left)
    total["costliest"] = _costliest(report)
  if bounds:
    total["slice_seconds"] = {
      "at_best": sum(bound.at_best.seconds for bound in bounds),
      "in_turn": sum(bound.in_turn.seconds for bound in bounds),
    }
  return total


def _costliest(report: PlanReport) -> list[dict[str, Any]]:
  """Returns the rows that take longest, shared runs counted where new."""
  seconds = collections.Counter()
  for study, row, _, _, new in report.lines():
    seconds[study, row] += sum(job.seconds or 0.0 for job in new)
  return [
    {"study": study, "row": row, "seconds": spent}
    for (study, row), spent in seconds.most_common(_COSTLIEST)
    if spent
  ]


def as_text(report: PlanReport) -> str:
  """Returns a table for each study, with a line for each row and phase."""
  tables = {name: [_HEAD] for name, _ in report.studies}
  for study, *line in report.lines():
    tables[study].append(_line(*line))
  unequal = _unequal_tokens(report)
  sections = [
    "\n".join([name, *aligned(table), *unequal[name]])
    for name, table in tables.items()
  ]
  return "\n\n".join([*sections, "\n".join(_summary(report))])


def _unequal_tokens(report: PlanReport) -> dict[str, list[str]]:
  """Returns by study a sentence on rows that read more than others, or none."""
  tokens = {name: collections.Counter() for name, _ in report.studies}
  for study, row, phase, jobs, _ in report.lines():
    if phase.endswith(_SEARCH):
      continue
    for name in ("input_tokens", "target_tokens"):
      tokens[study][row] += _sum(jobs, lambda c, name=name: getattr(c, name))
  found = {study: costs.unequal_tokens(rows) for study, rows in tokens.items()}
  return {study: [text] if text else [] for study, text in found.items()}


def _line(row, phase, jobs, new) -> tuple[str, ...]:
  """Returns sizes of one run, and sums over the new runs."""
  counted = [job.costs for job in jobs if job.costs is not None]

  def of_one(name):
    values = sorted({getattr(cost, name) for cost in counted})
    return " to ".join(
      f"{v:,}" for v in dict.fromkeys(values[:1] + values[-1:])
    )

  def together(name):
    return quantity(_sum(new, lambda cost: getattr(cost, name)))

  seconds = [job.seconds for job in new]
  time = "?" if None in seconds else duration(sum(seconds))
  return (
    *(row, phase, str(len(new)), str(len(jobs) - len(new))),
    *map(of_one, ("parameters", "trained_parameters", "steps")),
    *map(together, ("input_tokens", "target_tokens", "flops")),
    time,
  )


def _summary(report: PlanReport) -> list[str]:
  total = totals(report)
  done = total["runs"] - total["left"]
  line = f"{total['runs']} distinct runs, {done} of them finished; left: "
  line += f"{quantity(total['flops_left'])}FLOPs, "
  if total["elapsed_seconds"] is None:
    line += (
      "duration unknown, because no training run has finished on this machine "
      "in this folder yet"
    )
  else:
    line += f"about {duration(total['elapsed_seconds'])} on this machine"
    line += f", {report.processes} at once" * (report.processes > 1)
    line += f" (at the rate of {report.num_finished} finished runs)"
  lines = [line]
  if total["seconds"]:
    shares = [
      f"{row['study']} / {row['row']} {row['seconds'] / total['seconds']:.0%}"
      for row in total["costliest"]
    ]
    lines.append(
      f"{duration(total['seconds'])} of runs in all; most take "
      f"{', '.join(shares)}"
    )
    unknown = [job for job in report.jobs if job.seconds is None]
    if unknown:
      lines.append(
        f"not counted: {len(unknown)} evaluations of unknown duration, the "
        f"first is {unknown[0].run.name}"
      )
  if "slice_seconds" in total:
    bounds = total["slice_seconds"]
    lines.append(
      f"steps on {report.topology}: {duration(bounds['at_best'])} at best, "
      f"{duration(bounds['in_turn'])} without any overlap, by its roofline; "
      "collectives, evaluation and compiling not included"
    )
  return [*lines, *_NOTES]


def _run(run: planned_run.Run) -> dict[str, Any]:
  names = ("row", "seed", "group", "part", "phase", "member", "alternative")
  names += ("shared",)
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
    "slice_seconds": job.on_slice
    and {
      "at_best": job.on_slice.at_best.seconds,
      "in_turn": job.on_slice.in_turn.seconds,
    },
  }


def _sum(jobs: Iterable[Job], count: Callable[[costs.RunCosts], int]) -> int:
  return sum(count(job.costs) for job in jobs if job.costs is not None)
