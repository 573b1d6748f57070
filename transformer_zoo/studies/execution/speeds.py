"""How long runs take on this machine, told from runs that have ended here.

  seconds of a run = beginning + steps x step + evaluations x evaluation
                     + saves x save

Steps and saves are as long in all runs of one program; evaluations too, where
they are of the same tasks. The first run of a program in a process begins
later than the others, because it traces, compiles or loads it.
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import hashlib
import pathlib
import statistics

import gin

from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.runs import settings
from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.execution import machines
from transformer_zoo.studies.execution import outcome
from transformer_zoo.training.monitoring import recorder


@dataclasses.dataclass(frozen=True)
class Kind:
  """What tells runs apart that take differently long.

  Attributes:
    program: the same where steps are.
    mixture: what is evaluated.
  """

  program: str
  mixture: str

  @classmethod
  def of_loaded(cls) -> "Kind":
    """The kind of the training run that is configured now."""
    groups = (settings.Step, settings.Examples)
    names = [field.name for one in groups for field in dataclasses.fields(one)]
    text = config.text_of("train", names)
    program = hashlib.sha256(text.encode()).hexdigest()[:12]
    return cls(program, config.setting("mixture_or_task_name"))


@dataclasses.dataclass(frozen=True)
class Speed:
  """How long a run took, in seconds.

  Attributes:
    kind: of the run.
    beginning: before its first step, and of its first evaluation what was
      compiling.
    step: of one.
    evaluation: of one.
    save: of one checkpoint.
    flops: of a step.
    rehearsed: whether it was a rehearsal, and no run.
    compiled: whether it was a rehearsal that had to compile its programs.
    cores: those of the process that was measured, where this one has another
      number of them.
  """

  kind: Kind
  beginning: float
  step: float
  evaluation: float
  save: float
  flops: float
  rehearsed: bool = False
  compiled: bool = False
  cores: int | None = None

  @classmethod
  def from_json(cls, saved: Mapping) -> "Speed":
    """Reads what `dataclasses.asdict` gave."""
    return cls(**{**saved, "kind": Kind(**saved["kind"])})

  def with_other_cores(self, cores: int, ratio: float) -> "Speed":
    """What it is where steps take `ratio` times as long.

    Args:
      cores: those that it was measured with.
      ratio: of a step here to a step there.
    """
    return dataclasses.replace(
      self,
      step=self.step * ratio,
      evaluation=self.evaluation * ratio,
      cores=cores,
    )


def measured(
  folder: pathlib.Path, kind: Kind, *, rehearsed: bool = False
) -> Speed | None:
  """What a finished run tells; None where it does not say what it has cost.

  Args:
    folder: of the run.
    kind: of the run.
    rehearsed: whether it has so few steps that the median of its lines of
      timing says how long one takes.
  """
  result = outcome.read_result(folder)
  if "budget" not in result or not result["budget"]["steps"]:
    return None
  parts, steps = result["seconds_by_part"], result["budget"]["steps"]
  lines = recorder.read_lines(folder / recorder.TIMING_FILE)
  first, *others = _values(lines, "evaluation_seconds") or [0.0]
  evaluation = statistics.median(others) if others else first
  step = parts["training"] / steps
  if rehearsed:
    step = statistics.median(_values(lines, "seconds_per_step"))
  saves = len(_values(lines, "checkpoint_stall_seconds"))
  return Speed(
    kind=kind,
    beginning=parts["start"]
    + parts["compilation"]
    + max(0.0, first - evaluation),
    step=step,
    evaluation=evaluation,
    save=parts["saving"] / max(1, saves),
    flops=result["budget"]["flops"] / steps,
    rehearsed=rehearsed,
  )


class Speeds:
  """What is known of this machine's speed; kept in a file beside the runs.

  What was measured with another number of cores counts where nothing was
  measured with those of this process.
  """

  def __init__(self, file: pathlib.Path):
    """Reads what is known.

    Args:
      file: is made when something is added.

    Raises:
      UserError: it is damaged.
    """
    self._file = file
    self._machine = machines.here()
    saved = json_files.read(file) if file.exists() else {}
    self._all: dict[str, dict[str, Speed | None]] = {
      machine: {
        name: speed and Speed.from_json(speed) for name, speed in known.items()
      }
      for machine, known in saved.items()
    }

  def read_pool(self, pool: pathlib.Path) -> None:
    """Adds the finished runs of a pool that this machine has computed."""
    known = set().union(*self._all.values())
    for result in sorted(pool.glob(f"*/{outcome.RESULT_FILE}")):
      name = result.parent.name
      machine = None if name in known else machines.of_run(result.parent)
      if machine is not None and self._is_this_one(machine):
        self._all.setdefault(machine, {})[name] = _read(result.parent)
    self._write()

  def add(self, name: str, speed: Speed) -> None:
    """Adds one, in the place of another one of its name."""
    self._all.setdefault(self._machine, {})[name] = speed
    self._write()

  def matching(
    self,
    program: str | None = None,
    mixture: str | None = None,
    *,
    compiled: bool = False,
  ) -> list[Speed]:
    """Those of a program and a mixture, or of any.

    Rehearsals that had to compile are there if they are asked for (`compiled`),
    others where no run of their kind has ended.
    """

    def fits(speed):
      return (
        program in (None, speed.kind.program)
        and mixture in (None, speed.kind.mixture)
        and compiled >= speed.compiled
      )

    here = list(filter(fits, self._speeds(self._machine)))
    found = here or list(filter(fits, self._elsewhere()))
    run = {speed.kind for speed in found if not speed.rehearsed}
    return [
      speed
      for speed in found
      if not speed.rehearsed or speed.compiled or speed.kind not in run
    ]

  def _is_this_one(self, machine: str) -> bool:
    """Whether it is this machine, with whatever number of cores."""
    return machine == self._machine or machines.differ_in_cores(
      machine, self._machine
    )

  def _elsewhere(self) -> Iterator[Speed]:
    """Speeds of this machine with other numbers of cores, as they are here."""
    for machine in self._all:
      if machines.differ_in_cores(machine, self._machine):
        ratio = self._ratio(machine)
        for speed in self._speeds(machine):
          yield speed.with_other_cores(machines.cores(machine), ratio)

  def _ratio(self, other: str) -> float:
    """How long a step takes here for one there.

    Told by the programs that are known of both. Where there is none, twice the
    cores do 1.4 times the work: between 1.2 and 1.7, as measured with two cores
    and small models (docs/guides/studies.md). Accelerators do not care.
    """
    here = _steps(self._speeds(self._machine))
    there = _steps(self._speeds(other))
    if both := here.keys() & there.keys():
      return statistics.median(here[name] / there[name] for name in both)
    if not machines.computes_on_cores(other):
      return 1.0
    return (machines.cores(other) / machines.cores(self._machine)) ** 0.5

  def _speeds(self, machine: str) -> Iterator[Speed]:
    """Those of a machine; some runs do not tell theirs."""
    return filter(None, self._all.get(machine, {}).values())

  def _write(self) -> None:
    self._file.parent.mkdir(parents=True, exist_ok=True)
    saved = {
      machine: {
        name: speed and dataclasses.asdict(speed)
        for name, speed in known.items()
      }
      for machine, known in self._all.items()
    }
    json_files.replace(self._file, saved)


def _steps(speeds: Iterable[Speed]) -> dict[str, float]:
  """The median step of each program."""
  by_program = {}
  for speed in speeds:
    by_program.setdefault(speed.kind.program, []).append(speed.step)
  return {name: statistics.median(of) for name, of in by_program.items()}


def _read(folder: pathlib.Path) -> Speed | None:
  """The speed of a finished run; None where its files do not tell it."""
  try:
    config.load([str(folder / "config.gin")])
    return measured(folder, Kind.of_loaded())
  except UserError:  # Of a version before, or of `evaluate`.
    return None
  finally:
    gin.clear_config()


def _values(lines: Iterable[Mapping], name: str) -> list[float]:
  name = f"timing/{name}"
  return [line[name] for line in lines if name in line]
