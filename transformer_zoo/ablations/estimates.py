"""What a study's runs will cost, and how long they will take here."""

from collections.abc import Callable, Iterable, Sequence
import contextlib
import dataclasses
import functools
import os
import pathlib
import statistics

import gin

from transformer_zoo import config
from transformer_zoo import environment
from transformer_zoo.ablations import execution
from transformer_zoo.ablations import plan
from transformer_zoo.ablations import rehearsal
from transformer_zoo.ablations import standing
from transformer_zoo.ablations.speeds import Kind
from transformer_zoo.ablations.speeds import Speed
from transformer_zoo.ablations.speeds import Speeds
from transformer_zoo.experiment import programs
from transformer_zoo.experiment import run_costs
from transformer_zoo.experiment.run_costs import RunCosts
from transformer_zoo.forecast import hardware
from transformer_zoo.forecast import roofline
from transformer_zoo.forecast import topologies
from transformer_zoo.forecast.roofline import Roofline
from transformer_zoo.modules import target
from transformer_zoo.peft import trainable

SPEEDS_FILE = "speeds.json"

MEASURED = "measured"
REHEARSED = "rehearsed"
SCALED = "scaled by FLOPs"
UNKNOWN = "unknown"

# A rehearsal that would take longer is left out; so many FLOP/s are assumed of
# a machine of which nothing is known.
_MOST_SECONDS = 300
_FLOPS_PER_SECOND = 2e10
# Of parameters, gradients, moments and copies: more than half of the memory is
# too much for a rehearsal.
_BYTES_PER_PARAMETER = 16


@dataclasses.dataclass(frozen=True)
class Job:
  """One distinct run of the plan.

  Attributes:
    run: its name and place.
    state: how far it has come, one of `standing.STATES`.
    kind: of its program and data; of an evaluation, that of what it evaluates.
    costs: what it costs; None of an evaluation, which trains nothing.
    seconds: what is left of it on this machine, one run at a time; None where
      nothing is known.
    source: where that comes from: `MEASURED`, `REHEARSED`, `SCALED`, `UNKNOWN`.
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


def jobs(
  runs: Iterable[plan.Run],
  search_paths: Sequence[str | os.PathLike[str]] = (),
  topology: str | None = None,
) -> list[Job]:
  """The distinct runs with their costs, each program traced once.

  Args:
    runs: of one study or of several, each after those that it starts from.
    search_paths: folders for gin files.
    topology: a TPU slice, as `v5e:4x4`, whose bounds are told too.

  Raises:
    UserError: a configuration does not fit together, or there is no such slice.
  """
  chips = topology and topologies.chips_of(topology)
  with target.compiling_for("tpu") if chips else contextlib.nullcontext():
    found = _jobs(runs, search_paths)
  return [_with_bounds(job, *chips) for job in found] if chips else found


def _jobs(runs, search_paths) -> list[Job]:
  found: dict[pathlib.Path, Job] = {}
  by_changes, by_text = {}, {}
  for run in runs:
    if run.folder in found:
      continue
    if run.command == "train":
      if run.changes not in by_changes:
        by_changes[run.changes] = _look(run, search_paths, by_text)
      kind, costs = by_changes[run.changes]
    else:
      kind, costs = found[run.starts[0]].kind, None
    state = standing.of_folder(run.folder).state
    found[run.folder] = Job(run, state, kind, costs)
  return list(found.values())


def with_seconds(
  planned: Sequence[Job],
  *,
  output_dir: pathlib.Path,
  cache: pathlib.Path,
  search_paths: Sequence[str | os.PathLike[str]] = (),
  say: Callable[[str], None] = print,
) -> list[Job]:
  """The same with the seconds that are left, in the order of the runs.

  What has ended on this machine says how fast it is. A few steps are rehearsed
  of a phase of which nothing has, and of data; other programs of that phase
  take as much longer as their steps have more FLOPs.

  Args:
    planned: the runs.
    output_dir: where the pool of runs lies.
    cache: folder of compiled programs.
    search_paths: folders for gin files.
    say: told what is rehearsed.
  """
  speeds = Speeds(output_dir / SPEEDS_FILE)
  speeds.read_pool(output_dir / plan.POOL)
  tried = set()
  for job in filter(lambda job: job.is_left and job.costs, planned):
    if job.kind in tried or _is_known(job, planned, speeds):
      continue
    tried.add(job.kind)
    if refused := _too_large(job.costs, speeds):
      say(f"not rehearsed: {job.run.name}, {refused}")
      continue
    say(f"rehearsing a few steps of {job.run.name}")
    try:
      _rehearse(job.run, speeds, output_dir, cache, search_paths)
    except Exception as error:  # An estimate is worth having all the same.
      say(f"  not rehearsed: {execution.reason(error)}")
  began = set()
  return [_estimated(job, speeds, began) for job in planned]


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


def _look(run, search_paths, by_text) -> tuple[Kind, RunCosts]:
  bindings = plan.run_bindings(run.command, 0, "", ["start"] * len(run.starts))
  try:
    config.load((), bindings, search_paths, changes=run.changes)
    kind = Kind.of_loaded()
    settings = programs.settings()
    key = kind.program, settings["train_steps"], settings["periods"]
    if key not in by_text:
      if settings["trainable"] == trainable.ALL:
        # Traced layer by layer, T5 base takes five times as long. Only bytes
        # accessed become more by it, about a tenth.
        gin.bind_parameter("Stack.scan", True)
        settings = programs.settings()
      by_text[key] = run_costs.of_settings(settings)
    return kind, by_text[key]
  finally:
    gin.clear_config()


def _is_known(job: Job, planned: Sequence[Job], speeds: Speeds) -> bool:
  """Whether its data is known, and a program of its phase."""
  of_phase = {
    other.kind.program for other in planned if other.run.phase == job.run.phase
  }
  return bool(speeds.matching(mixture=job.kind.mixture)) and any(
    speeds.matching(program=program) for program in of_phase
  )


def _too_large(costs: RunCosts, speeds: Speeds) -> str:
  """Why a rehearsal would not do; empty where it will."""
  memory = _memory_gib()
  needed = costs.parameters * _BYTES_PER_PARAMETER / 2**30
  if memory is not None and needed > memory / 2:
    return f"{costs.parameters:,} parameters are too many for this machine"
  seconds = rehearsal.STEPS * 3 * _step_by_flops(costs, speeds.matching())
  if seconds > _MOST_SECONDS:
    return f"it would take about {seconds / 60:,.0f} minutes"
  return ""


@functools.cache
def _memory_gib() -> float | None:
  return environment.describe_environment()["memory_gib"]


def _step_by_flops(costs: RunCosts, known: Sequence[Speed]) -> float:
  """Seconds of a step, by how long others take for their FLOPs."""
  flops = costs.flops / costs.steps
  rates = [speed.flops / speed.step for speed in known if speed.flops]
  return flops / (statistics.median(rates) if rates else _FLOPS_PER_SECOND)


def _rehearse(run, speeds, output_dir, cache, search_paths) -> None:
  folder = output_dir / ".rehearsal"
  found = rehearsal.rehearse(run, folder, cache, search_paths)
  for what, speed in zip(rehearsal.PARTS, found, strict=True):
    name = f"rehearsal-{speed.kind.program}-{speed.kind.mixture}-{what}"
    speeds.add(name, speed)


def _estimated(job: Job, speeds: Speeds, began: set[Kind]) -> Job:
  """A job with its seconds.

  Args:
    job: the run.
    speeds: of this machine.
    began: kinds of the runs before it; this one's is added.
  """
  if not job.is_left:
    return dataclasses.replace(job, seconds=0.0, source=MEASURED)
  of_program = speeds.matching(program=job.kind.program)
  evaluation = _evaluation(job.kind, speeds)
  known = of_program or speeds.matching()
  if not known or (job.costs is None and not of_program):
    return job
  seconds = _beginning(job.kind, speeds, began)
  began.add(job.kind)
  if job.costs is None:
    seconds += evaluation * len(job.run.starts)
  else:
    step = _median(of_program, "step") or _step_by_flops(job.costs, known)
    seconds += job.costs.steps * step
    seconds += job.costs.evaluations * evaluation
    seconds += job.costs.saves * _median(known, "save")
  source = SCALED
  if of_program:
    source = REHEARSED if of_program[0].rehearsed else MEASURED
  return dataclasses.replace(job, seconds=seconds, source=source)


def _beginning(kind: Kind, speeds: Speeds, began: set[Kind]) -> float:
  """Seconds before a run's first step.

  The first run of a kind finds its programs on disk, if anything at all has run
  them before; the others have them in memory.
  """
  of_program = speeds.matching(program=kind.program)
  same = speeds.matching(kind.program, kind.mixture) or of_program
  if same:
    choose = min if kind in began else max
    return choose(speed.beginning for speed in same)
  if any(kind.program == other.program for other in began):
    return min(speed.beginning for speed in speeds.matching())
  return max(speed.beginning for speed in speeds.matching(compiled=True))


def _evaluation(kind: Kind, speeds: Speeds) -> float:
  """Seconds of an evaluation, by other programs' where this one's is not known.

  Decoding takes as much longer as the steps do. It is 0 where neither the
  program nor the mixture is known.
  """
  same = speeds.matching(kind.program, kind.mixture)
  if same:
    return _median(same, "evaluation")
  of_program = speeds.matching(program=kind.program)
  of_mixture = speeds.matching(mixture=kind.mixture)
  if not of_mixture:
    return _median(of_program, "evaluation")
  if not of_program:
    return _median(of_mixture, "evaluation")
  step = _median(of_program, "step")
  return statistics.median(s.evaluation * step / s.step for s in of_mixture)


def _median(speeds: Sequence[Speed], name: str) -> float:
  values = [getattr(speed, name) for speed in speeds]
  return statistics.median(values) if values else 0.0
