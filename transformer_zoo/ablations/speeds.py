"""How long runs take on this machine, told from runs that have ended here.

  seconds of a run = beginning + steps x step + evaluations x evaluation
                     + saves x save

Steps and saves are as long in all runs of one program; evaluations too, where
they are of the same tasks. The first run of a program in a process begins
later than the others, because it traces, compiles or loads it.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import hashlib
import pathlib
import statistics

import gin

from transformer_zoo import config
from transformer_zoo import environment
from transformer_zoo.ablations import json_files
from transformer_zoo.ablations import outcome
from transformer_zoo.errors import UserError
from transformer_zoo.training import recorder

# Arguments of `train` that change no program, but what it is fed and how often
# it runs.
_NOT_OF_PROGRAMS = frozenset(
  {
    *("model_dir", "checkpointing", "initial_checkpoint", "periods", "seed"),
    *("mixture_or_task_name", "prepared_dir", "num_workers", "rates"),
    *("train_steps", "static_copies", "max_tokens", "corruption"),
    *("learning_rate", "evaluation_max_examples"),
  }
)


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
    text = config.text_without("train", _NOT_OF_PROGRAMS)
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
  """

  kind: Kind
  beginning: float
  step: float
  evaluation: float
  save: float
  flops: float
  rehearsed: bool = False
  compiled: bool = False

  @classmethod
  def from_json(cls, saved: Mapping) -> "Speed":
    """Reads what `dataclasses.asdict` gave."""
    return cls(**{**saved, "kind": Kind(**saved["kind"])})


def measured(
  folder: pathlib.Path,
  kind: Kind,
  *,
  rehearsed: bool = False,
  compiled: bool = False,
) -> Speed | None:
  """What a finished run tells; None where it does not say what it has cost.

  Args:
    folder: of the run.
    kind: of the run.
    rehearsed: whether its last steps alone say how long one takes.
    compiled: whether it was the first that needed its programs.
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
    step = _values(lines, "seconds_per_step")[-1]
  saves = len(_values(lines, "checkpoint_stall_seconds"))
  return Speed(
    kind=kind,
    beginning=parts["start"] + parts["compilation"] + first - evaluation,
    step=step,
    evaluation=evaluation,
    save=parts["saving"] / max(1, saves),
    flops=result["budget"]["flops"] / steps,
    rehearsed=rehearsed,
    compiled=compiled,
  )


class Speeds:
  """What is known of this machine's speed; kept in a file beside the runs."""

  def __init__(self, file: pathlib.Path):
    """Reads what is known.

    Args:
      file: is made when something is added.

    Raises:
      UserError: it is damaged.
    """
    self._file = file
    self._machine = machine()
    self._all = json_files.read(file) if file.exists() else {}

  def read_pool(self, pool: pathlib.Path) -> None:
    """Adds the finished runs of a pool that this machine has computed."""
    known = self._known()
    for result in sorted(pool.glob(f"*/{outcome.RESULT_FILE}")):
      name = result.parent.name
      if name not in known and _machine_of(result.parent) == self._machine:
        self._add(name, _read(result.parent))
    self._write()

  def add(self, name: str, speed: Speed) -> None:
    """Adds one, in the place of another one of its name."""
    self._add(name, speed)
    self._write()

  def matching(
    self,
    program: str | None = None,
    mixture: str | None = None,
    *,
    compiled: bool = False,
  ) -> list[Speed]:
    """Those of a program and a mixture, or of any; runs rather than rehearsals.

    Rehearsals are left out where there is a run, and those that had to compile
    unless `compiled`.
    """
    found = [
      speed
      for saved in self._known().values()
      if saved is not None
      for speed in [Speed.from_json(saved)]
      if program in (None, speed.kind.program)
      and mixture in (None, speed.kind.mixture)
      and compiled >= speed.compiled
    ]
    return [speed for speed in found if not speed.rehearsed] or found

  def _known(self) -> dict[str, Mapping | None]:
    return self._all.setdefault(self._machine, {})

  def _add(self, name: str, speed: Speed | None) -> None:
    self._known()[name] = speed and dataclasses.asdict(speed)

  def _write(self) -> None:
    self._file.parent.mkdir(parents=True, exist_ok=True)
    json_files.replace(self._file, self._all)


def machine() -> str:
  """What tells this machine from others that are differently fast."""
  return _name(environment.describe_environment())


def _machine_of(folder: pathlib.Path) -> str | None:
  try:
    return _name(json_files.read(folder / "environment.json"))
  except (UserError, KeyError):
    return None


def _name(found: Mapping) -> str:
  devices = found["devices"]
  return (
    f"{devices['count']} x {devices['kind']}, {found['cpu_count']} cores, "
    f"{found['memory_gib']} GiB, {found['platform']}"
  )


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
