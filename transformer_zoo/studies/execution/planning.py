"""What `zoo ablate --plan` does: looks, rehearses, tells; trains nothing."""

from collections.abc import Iterator
import contextlib
import json
import os
import sys

from transformer_zoo.errors import UserError
from transformer_zoo.forecast import topologies
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.request import Launch
from transformer_zoo.studies.design.request import Request
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import estimates
from transformer_zoo.studies.execution import known_costs
from transformer_zoo.studies.execution import launchers
from transformer_zoo.studies.execution import machines
from transformer_zoo.studies.execution import plan_report
from transformer_zoo.studies.execution import rehearsing
from transformer_zoo.studies.execution.speeds import Speeds

SPEEDS_FILE = "speeds.json"


def show(
  request: Request,
  launch: Launch,
  topology: str | None = None,
  most_rehearsals: int | None = None,
  in_json: bool = False,
) -> None:
  """Prints the plan of what was asked for.

  Args:
    request: the studies.
    launch: where they will be trained.
    topology: a TPU slice to tell of too.
    most_rehearsals: see `rehearsing.rehearse`.
    in_json: whether JSON is printed.

  Raises:
    UserError: a study cannot be run as it is written, there is no such slice,
      or the number of rehearsals is negative.
  """
  if most_rehearsals is not None and most_rehearsals < 0:
    raise UserError(
      f"--rehearse is {most_rehearsals}; it has to be 0, for what is known "
      "already, or more"
    )
  if topology is not None:
    topologies.chips_of(topology)  # A mistake is told before anything else.
  with (
    contextlib.redirect_stdout(sys.stderr),  # It is for the plan alone.
    _as_one_of_them(launch),
  ):
    told = _planned(request, launch, topology, most_rehearsals)
  if in_json:
    print(json.dumps(plan_report.as_json(told), indent=2))
  else:
    print(plan_report.as_text(told))


def _planned(request, launch, topology, most_rehearsals) -> plan_report.Told:
  planned = request.planned(prepare=False)
  runs = [run for each in planned for run in each.runs]
  with request.data_folders():
    jobs = estimates.jobs(
      runs, request.search_paths, topology, request.root / known_costs.FILE
    )
    speeds = Speeds(request.root / SPEEDS_FILE)
    speeds.read_pool(request.root / plan.POOL)
    rehearsing.rehearse(
      jobs,
      speeds,
      most=most_rehearsals,
      output_dir=request.root,
      cache=request.cache,
      search_paths=request.search_paths,
    )
  return plan_report.Told(
    studies=[(each.study.name, each.runs) for each in planned],
    jobs=durations.with_seconds(jobs, speeds, launch.jobs),
    topology=topology,
    processes=launch.jobs,
    processors=machines.processors(machines.here()),
  )


@contextlib.contextmanager
def _as_one_of_them(launch: Launch) -> Iterator[None]:
  """With the cores and GPUs that each of a launch's processes will have.

  JAX starts within it, so that what is rehearsed has as many.
  """
  if launch.jobs == 1 or launch.is_queued:
    yield
    return
  cores, gpus = launchers.usable_cores(), launchers.visible_gpus()
  before = dict(os.environ)
  if gpus:
    os.environ.update(launchers.gpu_variables(gpus, 0, launch.jobs))
  if cores:
    os.sched_setaffinity(0, launchers.share_of_devices(cores, 0, launch.jobs))
  try:
    yield
  finally:
    os.environ.clear()
    os.environ.update(before)
    if cores:
      os.sched_setaffinity(0, cores)
