"""What a study's runs will cost, whatever the machine."""

from collections.abc import Iterable, Sequence
import contextlib
import dataclasses
import functools
import os
import pathlib

import gin

from transformer_zoo import config
from transformer_zoo.forecast import hardware
from transformer_zoo.forecast import roofline
from transformer_zoo.forecast import run_costs
from transformer_zoo.forecast import topologies
from transformer_zoo.forecast.roofline import Roofline
from transformer_zoo.forecast.run_costs import RunCosts
from transformer_zoo.modules import target
from transformer_zoo.peft import trainable
from transformer_zoo.runs.settings import Run
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import run_bindings
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.known_costs import KnownCosts
from transformer_zoo.studies.execution.speeds import Kind

UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Job:
  """One distinct run of the plan.

  Attributes:
    run: its name and place.
    state: how far it has come, one of `standing.STATES`.
    kind: of its program and data; of an evaluation, that of what it evaluates.
    costs: what it costs; None of an evaluation, which trains nothing.
    seconds: what is left of it on this machine (`durations`); None where
      nothing is known.
    source: where that comes from, in words.
    on_slice: what is left of its steps on a TPU slice, or None.
  """

  run: plan.Run
  state: str
  kind: Kind
  costs: RunCosts | None
  seconds: float | None = None
  source: str = UNKNOWN
  on_slice: Roofline | None = None

  @property
  def is_left(self) -> bool:
    """Whether anything is left to be done."""
    return self.state != standing.FINISHED

  @property
  def step_flops(self) -> float:
    """FLOPs of a step, of one that trains."""
    return self.costs.flops / self.costs.steps


def jobs(
  runs: Iterable[plan.Run],
  search_paths: Sequence[str | os.PathLike[str]] = (),
  topology: str | None = None,
  costs_file: pathlib.Path | None = None,
) -> list[Job]:
  """The distinct runs with their costs, each program traced once.

  Args:
    runs: of one study or of several, each after those that it starts from.
    search_paths: folders for gin files.
    topology: a TPU slice, as `v5e:4x4`, whose bounds are told too.
    costs_file: remembers the costs of programs for the next time.

  Raises:
    UserError: a configuration does not fit together, or there is no such slice.
  """
  chips = topology and topologies.chips_of(topology)
  with target.compiling_for("tpu") if chips else contextlib.nullcontext():
    known = KnownCosts(costs_file)
    found = _jobs(runs, search_paths, known, with_executed=bool(chips))
    known.write()
  return [_with_bounds(job, *chips) for job in found] if chips else found


def _jobs(runs, search_paths, known, with_executed) -> list[Job]:
  found: dict[pathlib.Path, Job] = {}
  by_changes = {}
  for run in runs:
    if run.folder in found:
      continue
    if run.command == "train":
      if run.changes not in by_changes:
        by_changes[run.changes] = _look(run, search_paths, known, with_executed)
      kind, costs = by_changes[run.changes]
    else:
      kind, costs = found[run.starts[0]].kind, None
    state = standing.of_folder(run.folder).state
    found[run.folder] = Job(run, state, kind, costs)
  return list(found.values())


def _with_bounds(job: Job, chip: hardware.Chip, devices: int) -> Job:
  """A job with the bounds of all its steps, as if they were one."""
  if job.costs is None or not job.is_left:
    return job
  bounds = roofline.estimate(
    job.costs.executed,
    job.costs.flops,
    (),  # What devices send is known of compiled programs alone.
    chip=chip,
    devices=devices,
    step_tokens=job.costs.input_tokens + job.costs.target_tokens,
  )
  return dataclasses.replace(job, on_slice=bounds)


def _look(run, search_paths, known, with_executed) -> tuple[Kind, RunCosts]:
  bindings = run_bindings.of_run(
    run.command, 0, "", ["start"] * len(run.starts)
  )
  try:
    config.load((), bindings, search_paths, changes=run.changes)
    kind = Kind.of_loaded()
    settings = Run.of_loaded()
    steps, periods = settings.course.train_steps, settings.course.periods
    key = (
      f"{kind.program}, {steps} steps, {periods}" + ", on TPU" * with_executed
    )
    count = functools.partial(_count, settings, with_executed)
    return kind, known.of(key, count)
  finally:
    gin.clear_config()


def _count(settings, with_executed) -> RunCosts:
  """The costs of the run that is configured now."""
  if settings.step.trainable == trainable.ALL:
    # Traced layer by layer, T5 base takes five times as long. Only bytes
    # accessed become more by it, about a tenth.
    gin.bind_parameter("Stack.scan", True)
    settings = Run.of_loaded()
  return run_costs.of_settings(settings, with_executed=with_executed)
