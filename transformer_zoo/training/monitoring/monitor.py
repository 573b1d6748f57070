"""The monitor of a run: what its steps give is read, added up and written."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import typing
from typing import Any

import jax
import numpy as np

from transformer_zoo.training.monitoring import anomalies
from transformer_zoo.training.monitoring import budget as budget_lib
from transformer_zoo.training.monitoring.budget import Budget
from transformer_zoo.training.monitoring.budget import Stopwatch
from transformer_zoo.training.monitoring.guard import Guard
from transformer_zoo.training.monitoring.recorder import Recorder

Value = float | np.ndarray
# Sums of a term (objectives/terms.py) and the names of their means.
_METRICS = {
  "loss_sum": "loss",
  "z_loss_sum": "z_loss",
  "correct_sum": "accuracy",
  "dropped_sum": "dropped",
}


@dataclasses.dataclass
class Window:
  """Sums over steps that the seed decides; a resumed run goes on adding.

  Attributes:
    sums: The sums by name, scalars or arrays.
    steps: The number of steps that were added.
  """

  sums: dict[str, Value] = dataclasses.field(default_factory=dict)
  steps: int = 0

  def add(self, sums: Mapping[str, Value]) -> None:
    """Adds the sums of a step."""
    for name, value in sums.items():
      self.sums[name] = self.sums.get(name, 0.0) + value
    self.steps += 1

  def means(self, norm_names: Sequence[str] = ()) -> dict[str, float]:
    """The line of metrics: sums divided once, norms and rates by steps.

    Args:
      norm_names: of the groups in `gradient_norms`, `parameter_norms` and
        `update_norms`.

    Returns:
      Values by name; none of a window without steps.
    """
    if not self.steps:
      return {}
    means = {
      **_means_of_terms(self.sums, self.steps),
      "train/gradient_norm": self.sums["gradient_norm"] / self.steps,
      "train/learning_rate": self.sums["learning_rate"] / self.steps,
      "train/tokens": self.sums["token_sum"],
    }
    if self.sums.get("place_sum"):
      filled = self.sums["token_sum"] / self.sums["place_sum"]
      means["train/padding"] = 1.0 - filled
    for kind in ("gradient", "parameter", "update") if norm_names else ():
      norms = self.sums[f"{kind}_norms"] / self.steps
      for name, norm in zip(norm_names, norms, strict=True):
        means[f"{kind}_norm/{name}"] = norm
    return means

  def to_json(self) -> dict:
    """The window for a checkpoint's progress, all digits kept."""
    sums = {name: np.asarray(v).tolist() for name, v in self.sums.items()}
    return {"sums": sums, "steps": self.steps}

  @classmethod
  def from_json(cls, saved: Mapping) -> "Window":
    """The inverse of `to_json`."""
    sums = {
      name: np.array(v) if isinstance(v, list) else v
      for name, v in saved["sums"].items()
    }
    return cls(sums, saved["steps"])


def _means_of_terms(sums: Mapping[str, Value], steps: int) -> dict[str, float]:
  """`train/loss` and such; of several terms also `train/<term>/loss`."""
  weights = [name for name in sums if name.endswith("weight_sum")]
  means = {}
  if len(weights) > 1:
    means["train/loss"] = sums["loss"] / steps
  for weight in weights:
    term = weight.removesuffix("weight_sum")
    for metric, mean in _METRICS.items():
      if term + metric in sums:
        value = sums[term + metric] / max(sums[weight], 1.0)
        means[f"train/{term}{mean}"] = value
  return means


if typing.TYPE_CHECKING:
  from transformer_zoo.training.monitoring.profiling import Profiler

# Their places, filled or not, are what padding is a share of.
TOKENS = ("encoder_input_tokens", "decoder_target_tokens")
Shapes = Mapping[str, jax.ShapeDtypeStruct]


class Watch:
  """The observer of the training loop: it receives each step and its sums.

  Attributes:
    guard: looks for anomalies.
    stopwatch: measures.
    budget: The cost of the run so far.
    shown: The values shown in the progress line of the terminal: the last loss,
      the speed.
  """

  def __init__(
    self,
    recorder: Recorder,
    guard: Guard,
    profiler: "Profiler | None",
    stopwatch: Stopwatch,
    *,
    norm_names: Sequence[str] = (),
    flops: Callable[[Shapes], float] = lambda shapes: 0.0,
    progress: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
  ):
    """Begins, or continues from a checkpoint.

    Args:
      recorder: The recorder that writes values.
      guard: looks for anomalies.
      profiler: takes traces of some steps; None takes none.
      stopwatch: measures.
      norm_names: The names of the groups whose norms a step returns.
      flops: A function from the shapes of a batch to the FLOPs that the model
        needs.
      progress: The result of `to_json` that a checkpoint holds; {} at the start
        of a run.
      budget: The budget of the run; None for one that continues from
        `progress`.
    """
    progress = progress or {}
    self.guard = guard
    self.stopwatch = stopwatch
    self.budget = budget or Budget(progress.get("budget"))
    self.shown: dict[str, float] = {}
    self._recorder = recorder
    self._profiler = profiler
    self._norm_names = norm_names
    self._flops = flops
    self._window = Window()
    if "window" in progress:
      self._window = Window.from_json(progress["window"])
    self._compiled = set()  # Shapes of the batches of steps.

  def to_json(self) -> dict[str, Any]:
    """The state for a resumed run."""
    return {
      "window": self._window.to_json(),
      "budget": self.budget.to_json(),
      "anomalies": self.guard.to_json(),
    }

  @contextlib.contextmanager
  def spent(self, part: str):
    """Goes around what is no step: `compilation`, `evaluation`."""
    with self.stopwatch.spent(part), self.budget.spent(part):
      yield

  @contextlib.contextmanager
  def step(self, number: int, shapes: Shapes):
    """Goes around the dispatch of a step; the first of its shapes compiles."""
    kind = frozenset((name, leaf.shape) for name, leaf in shapes.items())
    with contextlib.ExitStack() as stack:
      if self._profiler is not None:
        self._profiler.begin(number)
      stack.enter_context(
        jax.profiler.StepTraceAnnotation("train", step_num=number)
      )
      if kind not in self._compiled:
        stack.enter_context(self.spent("compilation"))
      yield
    self._compiled.add(kind)

  def traced(self, number: int, sums) -> str | None:
    """Ends a trace after its last step; a sentence where it does."""
    if self._profiler is None:
      return None
    return self._profiler.finish(number, sums)

  def read(
    self,
    number: int,
    sums: Mapping[str, jax.Array],
    batch: Mapping[str, np.ndarray],
    shapes: Shapes,
  ) -> None:
    """Reads what a step gave, waiting for it.

    Args:
      number: The number of the step, from 1.
      sums: The sums of `train_step`.
      batch: The batch of this process.
      shapes: The shapes of the global batch.

    Raises:
      FloatingPointError: as `Guard.accepts`.
    """
    sums = {name: _number(v) for name, v in jax.device_get(sums).items()}
    flops = self._flops(shapes)
    places = [shapes[name] for name in TOKENS if name in shapes]
    self.budget.add(
      rows=places[0].shape[0] if places else 0,
      tokens=sums["token_sum"],
      targets=sum(
        value for name, value in sums.items() if name.endswith("weight_sum")
      ),
      flops=flops,
    )
    self.stopwatch.add(sums["token_sum"], flops)
    if not self.guard.accepts(number, sums, batch):
      return
    for name in anomalies.VERDICT:
      sums.pop(name, None)
    sums["place_sum"] = float(sum(place.size for place in places))
    self._window.add(sums)
    self.shown["loss"] = _means_of_terms(sums, 1)["train/loss"]

  def log(self, step: int) -> None:
    """Writes a line of metrics and one of timing; the next window begins."""
    means = self._window.means(self._norm_names)
    self._recorder.record(step, {**means, **self.guard.counts()})
    self._window = Window()
    timing = self.stopwatch.lap()
    self._recorder.timing(step, {**timing, **budget_lib.memory()})
    for name in ("tokens_per_second", "flops_per_second", "utilization"):
      if f"timing/{name}" in timing:
        self.shown[name] = timing[f"timing/{name}"]

  def log_rest(self, step: int) -> None:
    """Writes what was measured after the last line."""
    if rest := self.stopwatch.lap():
      self._recorder.timing(step, rest)

  def close(self) -> None:
    """Ends a trace that still runs."""
    if self._profiler is not None:
      self._profiler.close()


def shapes_of(batch: Mapping[str, jax.Array]) -> Shapes:
  """The shapes of a batch, whose arrays may go."""
  return {
    name: jax.ShapeDtypeStruct(value.shape, value.dtype)
    for name, value in batch.items()
  }


def _number(value: np.ndarray) -> float | np.ndarray:
  """A float, or an array of float64, in which windows are added up."""
  value = np.asarray(value, np.float64)
  return value if value.ndim else float(value)
