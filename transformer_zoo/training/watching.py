"""Settings of monitoring: intervals, norms, writers, anomalies, profiles."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import pathlib
from typing import Any, Literal

import gin
import jax

from transformer_zoo.effects import Place
from transformer_zoo.effects import Result
from transformer_zoo.errors import UserError
from transformer_zoo.training.monitoring import norms as norms_lib
from transformer_zoo.training.monitoring.anomalies import Anomalies
from transformer_zoo.training.monitoring.budget import Budget
from transformer_zoo.training.monitoring.budget import Stopwatch
from transformer_zoo.training.monitoring.guard import Guard
from transformer_zoo.training.monitoring.monitor import Shapes
from transformer_zoo.training.monitoring.monitor import Watch
from transformer_zoo.training.monitoring.norms import Norms
from transformer_zoo.training.monitoring.recorder import NoRecorder
from transformer_zoo.training.monitoring.recorder import Recorder
from transformer_zoo.training.program import TrainProgram


@gin.register
@dataclasses.dataclass(frozen=True)
class Watching:
  """Settings of monitoring.

  `in_step` gives the parts that belong to the compiled step, `start` the
  observer that the loop calls, and `recorder` the writer of files, which writes
  on the first process only.

  Attributes:
    anomalies: The reaction to NaN, infinities and spikes.
    norms: The norms of gradients and parameters that are logged: of 'groups'
      such as `encoder/mlp`, of all 'layers' too, or the 'total' of the
      gradients only.
    writers: The writers of metrics besides the run's own files and TensorBoard.
    profile: The steps of which a trace is taken, such as `10:13`; None for
      none.
  """

  anomalies: Anomalies = Anomalies()
  norms: Result[Literal["total", "groups", "layers"]] = "groups"
  writers: Place[Sequence[Any]] = ()
  profile: Place[str | None] = None

  def in_step(self) -> dict[str, Any]:
    """Returns the arguments of `TrainProgram` that follow from it."""
    return {"anomalies": self.anomalies, "norms": self._norms()}

  def check(self, train_steps: int) -> None:
    """Checks the settings before a run begins.

    Args:
      train_steps: The last step of the run.

    Raises:
      UserError: The run lacks the steps to profile, or the package of a writer
        is not installed.
    """
    self._profiler(pathlib.Path(), train_steps)
    for writer in self.writers:
      if isinstance(writer, str):
        raise UserError(
          f"WRITERS has the text {writer!r}; it lists objects, as "
          "[@WeightsAndBiases()]"
        )
      writer.check()

  def recorder(self, folder: pathlib.Path) -> Recorder:
    """Opens the metric files of a run; the first of several processes writes.

    Args:
      folder: The run folder.

    Raises:
      UserError: A file cannot be opened, or a writer cannot start.
    """
    if jax.process_index():
      return NoRecorder()
    return Recorder(folder, self.writers)

  def start(
    self,
    program: TrainProgram,
    recorder: Recorder,
    folder: pathlib.Path,
    *,
    train_steps: int,
    origin: Callable[[int], Mapping[str, Any]],
    progress: Mapping[str, Any],
    started: float | None = None,
  ) -> Watch:
    """Begins to watch a run.

    Args:
      program: The program of the step.
      recorder: The writer of values.
      folder: The run folder.
      train_steps: The last step of the run.
      origin: The function from the number of a batch, from 0, to its origin.
      progress: The progress saved in the restored checkpoint, or {}.
      started: The time by `time.perf_counter` at which this process began with
        the run; None for now.
    """
    guard = Guard(
      self.anomalies,
      recorder,
      folder,
      origin=origin,
      place=program.place_history,
      saved=progress.get("anomalies"),
    )
    names = ()
    if self.norms != "total":
      params = program.abstract_state.params
      names = norms_lib.names(params, by_layer=self.norms == "layers")
    return Watch(
      recorder,
      guard,
      self._profiler(folder, train_steps),
      Stopwatch(
        devices=program.mesh.size,
        peak_flops=_peak_flops(program.mesh.devices.flat[0]),
      ),
      norm_names=names,
      flops=functools.partial(_flops, program),
      progress=progress,
      budget=Budget(
        progress.get("budget"), **program.parameter_counts, started=started
      ),
    )

  def _profiler(self, folder: pathlib.Path, train_steps: int):
    if self.profile is None:
      return None
    from transformer_zoo.training.monitoring import profiling

    return profiling.Profiler(
      profiling.parse(self.profile, train_steps), folder
    )

  def _norms(self) -> Norms | None:
    if self.norms == "total":
      return None
    return functools.partial(norms_lib.norms, by_layer=self.norms == "layers")


def _peak_flops(device: jax.Device) -> float | None:
  """Returns the FLOPs of a device per second; None if they are unknown."""
  if device.platform == "cpu":
    return None
  from transformer_zoo.forecast import hardware

  chip = hardware.chip_of(device.device_kind)
  return chip.peak_flops if chip else None


def _flops(program: TrainProgram, shapes: Shapes) -> int:
  """Returns the model FLOPs of a step; equal shapes are counted once."""
  key = tuple((name, shapes[name].shape) for name in sorted(shapes))
  if key not in program.known_flops:
    program.known_flops[key] = program.model_flops(shapes)
  return program.known_flops[key]
