"""Which runs are rehearsed before a plan tells how long it takes."""

import collections
from collections.abc import Callable, Iterator, Sequence
import functools
import os
import pathlib

import jax

from transformer_zoo import environment
from transformer_zoo.forecast import hardware
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import rehearsal
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution.estimates import Job
from transformer_zoo.studies.execution.speeds import Speeds

# Steps of a phase with so many times as many or few FLOPs are not told from
# each other's.
_NEAR = 3
# A rehearsal that would take longer is left out. Of a machine of which nothing
# is known, a tenth of its peak or so many FLOP/s are assumed.
_MOST_SECONDS = 300
_FLOPS_PER_SECOND = 2e10
# Of parameters, gradients, moments and copies: more than half of the memory is
# too much for a rehearsal.
_BYTES_PER_PARAMETER = 16


def rehearse(
  planned: Sequence[Job],
  speeds: Speeds,
  *,
  most: int | None,
  output_dir: pathlib.Path,
  cache: pathlib.Path,
  search_paths: Sequence[str | os.PathLike[str]] = (),
  say: Callable[[str], None] = print,
) -> None:
  """Rehearses what is not known, and adds what it finds to the speeds.

  Of each phase one program is rehearsed, and one for each mixture; more where
  steps have three times as many or as few FLOPs. Others are scaled by theirs.
  Ctrl-C ends it, and what has been rehearsed stays.

  Args:
    planned: the runs.
    speeds: what is known of this machine.
    most: how many programs are rehearsed at most, those first that most of the
      time hangs on, and of other programs too if there is room; None for those
      that are needed alone.
    output_dir: where rehearsals lie for the time being.
    cache: folder of compiled programs.
    search_paths: folders for gin files.
    say: told what is rehearsed.
  """
  needed, others = _choose(planned, speeds, say)
  chosen = needed if most is None else (needed + others)[:most]
  load, cores = os.getloadavg()[0], os.cpu_count()
  if chosen and load > cores:
    say(
      f"other processes use this machine (load {load:.1f}, {cores} cores): "
      "what is rehearsed now takes longer than it will take alone"
    )
  try:
    for number, job in enumerate(chosen, start=1):
      say(f"rehearsing {number} of {len(chosen)} ({job.run.name})")
      try:
        found = rehearsal.rehearse(
          job.run, output_dir / ".rehearsal", cache, search_paths
        )
      except Exception as error:  # An estimate is worth having all the same.
        say(f"  not rehearsed: {single_run.reason(error)}")
        continue
      for what, speed in zip(rehearsal.PARTS, found, strict=True):
        name = f"rehearsal-{speed.kind.program}-{speed.kind.mixture}-{what}"
        speeds.add(name, speed)
  except KeyboardInterrupt:
    say(f"stopped: {number - 1} of {len(chosen)} are rehearsed")


def _choose(planned, speeds, say) -> tuple[list[Job], list[Job]]:
  """The runs of kinds that are not known: those needed, and the others."""
  needed, others = [], []
  by_weight = list(_by_weight(planned))
  mixtures = {speed.kind.mixture for speed in speeds.matching()}
  steps = collections.defaultdict(list)  # FLOPs of those known, by phase.
  for job in by_weight:
    if speeds.matching(program=job.kind.program):
      steps[job.run.phase].append(job.step_flops)
  for job in by_weight:
    of_phase = steps[job.run.phase]
    near = any(1 / _NEAR < job.step_flops / step < _NEAR for step in of_phase)
    is_needed = not near or job.kind.mixture not in mixtures
    if speeds.matching(job.kind.program, job.kind.mixture):
      continue
    if refused := _too_large(job, speeds):
      if is_needed:
        say(f"not rehearsed: {job.run.name}, {refused}")
    elif is_needed:
      needed.append(job)
      of_phase.append(job.step_flops)
      mixtures.add(job.kind.mixture)
    else:
      others.append(job)
  return needed, others


def _by_weight(planned: Sequence[Job]) -> Iterator[Job]:
  """The first run of each kind, those first that most FLOPs are left of."""
  flops, first = collections.Counter(), {}
  for job in planned:
    if job.is_left and job.costs is not None:
      flops[job.kind] += job.costs.flops
      first.setdefault(job.kind, job)
  return (first[kind] for kind, _ in flops.most_common())


def _too_large(job: Job, speeds: Speeds) -> str:
  """Why a rehearsal would not do; empty where it will."""
  memory = _memory_gib()
  parameters = job.costs.parameters
  if memory and parameters * _BYTES_PER_PARAMETER / 2**30 > memory / 2:
    return f"{parameters:,} parameters are too many for this machine"
  known = durations.nearest(job, speeds.matching())
  step = (
    durations.step_by_flops(job, known)
    if known
    else job.step_flops / _assumed_flops_per_second()
  )
  seconds = (rehearsal.STEPS + 2) * step
  if seconds > _MOST_SECONDS:
    return f"it would take about {seconds / 60:,.0f} minutes"
  return ""


def _assumed_flops_per_second() -> float:
  devices = jax.devices()
  chip = hardware.chip_of(devices[0].device_kind)
  return len(devices) * chip.peak_flops / 10 if chip else _FLOPS_PER_SECOND


@functools.cache
def _memory_gib() -> float | None:
  return environment.describe_environment()["memory_gib"]
