"""The costs of a study's runs: tokens and FLOPs, on whatever machine.

Costs are counted by tracing the program of each run, without data and without
compiling. A file keeps them, so that the next plan does not trace again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib

import gin

from transformer_zoo import config
from transformer_zoo import environment
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import hardware
from transformer_zoo.forecast import roofline
from transformer_zoo.forecast import topologies
from transformer_zoo.forecast.cost import Cost
from transformer_zoo.forecast.roofline import Roofline
from transformer_zoo.peft import trainable
from transformer_zoo.runs import settings
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.execution import choices
from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.execution import run_costs
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.run_costs import RunCosts

COSTS_FILE = "costs.json"
# The settings that costs depend on.
_GROUPS = (settings.Step, settings.Examples, settings.Course)


@dataclasses.dataclass(frozen=True)
class Job:
  """One distinct run of a plan with its costs.

  Attributes:
    run: The run.
    state: The state of the run, one of `run_progress.STATES`.
    costs: The costs of a training run; None for an evaluation.
    seconds: The predicted duration on this machine (`durations.py`), 0 for a
      finished run; None if it is unknown.
    on_slice: The roofline of all steps on a TPU slice, or None.
  """

  run: planned_run.Run
  state: str
  costs: RunCosts | None
  seconds: float | None = None
  on_slice: Roofline | None = None

  @property
  def is_left(self) -> bool:
    """True if the run is not finished."""
    return self.state != run_progress.FINISHED


def jobs(
  runs: Iterable[planned_run.Run],
  search_paths: Sequence[str | os.PathLike[str]] = (),
  topology: str | None = None,
  costs_file: pathlib.Path | None = None,
) -> list[Job]:
  """Returns the distinct runs with their costs; traces each program once.

  Args:
    runs: The runs of one or several studies, each after those it starts from.
    search_paths: Folders that are searched for gin files first.
    topology: The name of a TPU slice, as "v5e:4x4", whose roofline is added.
    costs_file: The file that keeps costs between calls, or None.

  Raises:
    UserError: If the parts of a configuration do not fit together, or the slice
      does not exist.
  """
  chips = topology and topologies.chips_of(topology)
  with tracing.compiling_for("tpu") if chips else contextlib.nullcontext():
    known = KnownCosts(costs_file)
    found = _jobs(runs, search_paths, known, with_executed=bool(chips))
    known.write()
  return [_with_bounds(job, *chips) for job in found] if chips else found


def unequal_tokens(tokens: Mapping[str, float]) -> str:
  """Returns a sentence if a row reads twice the tokens of another, else "".

  Args:
    tokens: The number of tokens of each row by its label; 0 if they were not
      counted.
  """
  tokens = {row: number for row, number in tokens.items() if number}
  if not tokens:
    return ""
  low, high = min(tokens, key=tokens.get), max(tokens, key=tokens.get)
  if tokens[high] < 2 * tokens[low]:
    return ""
  return (
    f"The rows do not read as much: {high} reads {tokens[high]:,.0f} tokens, "
    f"{tokens[high] / tokens[low]:.1f} times the {tokens[low]:,.0f} of {low}."
  )


class KnownCosts:
  """Costs by keys, as this version of the code counted them."""

  def __init__(self, file: pathlib.Path | None):
    """Reads the file.

    Args:
      file: The path of the file, which need not exist; None to keep costs in
        memory only.

    Raises:
      UserError: If the file is damaged.
    """
    self._file = file
    self._code = environment.describe_software()["code"]
    saved = json_files.read(file) if file and file.exists() else {}
    self._costs: dict[str, RunCosts] = {
      key: _from_json(costs) for key, costs in saved.get(self._code, {}).items()
    }

  def get(self, key: str, count: Callable[[], RunCosts]) -> RunCosts:
    """Returns the costs under a key; calls `count` if they are unknown."""
    if key not in self._costs:
      self._costs[key] = count()
    return self._costs[key]

  def write(self) -> None:
    """Writes the costs; costs of other versions of the code are dropped."""
    if self._file is None:
      return
    self._file.parent.mkdir(parents=True, exist_ok=True)
    saved = {
      key: dataclasses.asdict(costs) for key, costs in self._costs.items()
    }
    json_files.replace(self._file, {self._code: saved})


def _from_json(saved: Mapping) -> RunCosts:
  executed = saved["executed"]
  return RunCosts(**{**saved, "executed": executed and Cost(**executed)})


def _jobs(runs, search_paths, known, with_executed) -> list[Job]:
  found: dict[pathlib.Path, Job] = {}
  by_changes = {}
  for run in runs:
    if run.folder in found:
      continue
    costs, actual = None, choices.resolved(run)
    if run.command == "train":
      if actual.changes not in by_changes:
        by_changes[actual.changes] = _costs_of(
          actual, search_paths, known, with_executed
        )
      costs = by_changes[actual.changes]
    state = run_progress.read(actual.folder).state
    found[run.folder] = Job(run, state, costs)
  return list(found.values())


def _with_bounds(job: Job, chip: hardware.Chip, devices: int) -> Job:
  """Returns a job with the roofline of all its steps taken as one."""
  if job.costs is None or not job.is_left:
    return job
  bounds = roofline.estimate(
    job.costs.executed,
    job.costs.flops,
    (),  # Collectives are known of compiled programs only.
    chip=chip,
    devices=devices,
    step_tokens=job.costs.input_tokens + job.costs.target_tokens,
  )
  return dataclasses.replace(job, on_slice=bounds)


def _costs_of(run, search_paths, known, with_executed) -> RunCosts:
  bindings = planned_run.bindings(
    run.command, 0, "", ["start"] * len(run.starts)
  )
  try:
    config.load((), bindings, search_paths, changes=run.changes)
    text = config.text_of("train", settings.names(*_GROUPS))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    count = functools.partial(_count, with_executed)
    return known.get(key + ", on TPU" * with_executed, count)
  finally:
    gin.clear_config()


def _count(with_executed: bool) -> RunCosts:
  """Counts the costs of the run that gin is configured for."""
  run = settings.Run.of_loaded()
  # Encoders leave out the unread outputs of the last layer, as mask decoders
  # and query streams do; a scan computes it.
  if run.step.trainable == trainable.ALL and run.step.model.offers.has_decoder:
    # Traced layer by layer, T5 base takes five times as long. Scanning adds
    # about a tenth to the bytes accessed and changes no other count.
    gin.bind_parameter("Stack.scan", True)
    # A stack whose layers differ cannot be scanned.
    with contextlib.suppress(UserError):
      run = settings.Run.of_loaded()
  return run_costs.of_settings(run, with_executed=with_executed)
