"""The training loop: linear, without callbacks.

While a step runs, the next batch is laid out on the devices; the next step is
dispatched before the metrics of the last one are read. So the devices do not
wait for the host.

The loop saves before it evaluates, so that a kill during an evaluation costs no
step. `evaluation_due` in the progress of a checkpoint makes a resumed run
evaluate first.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import os
import pathlib
from typing import Any

import gin
import jax
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.processes import agreement
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.monitoring.budget import Budget
from transformer_zoo.training.monitoring.monitor import shapes_of
from transformer_zoo.training.monitoring.monitor import Watch
from transformer_zoo.training.monitoring.progress import Progress
from transformer_zoo.training.monitoring.recorder import METRICS_FILE
from transformer_zoo.training.monitoring.recorder import read_lines
from transformer_zoo.training.monitoring.recorder import Recorder
from transformer_zoo.training.state import TrainState

PREEMPTED_EXIT_CODE = 143  # 128 + SIGTERM, as a shell reports it.

Batch = dict[str, np.ndarray]
# state, batch, history of anomalies -> state, sums.
RunStep = Callable[
  [TrainState, dict[str, jax.Array], Any],
  tuple[TrainState, dict[str, jax.Array]],
]
# parameters, step -> values to record.
Evaluate = Callable[[Any, int], dict[str, float]]


class Preempted(SystemExit):
  """The run was asked to stop and has saved its state."""

  def __init__(self):
    super().__init__(PREEMPTED_EXIT_CODE)


@gin.register
@dataclasses.dataclass(frozen=True)
class Periods:
  """The periods of logging, saving and evaluation; all also occur at the end.

  Attributes:
    log: The number of steps between two lines of metrics, which are means over
      these steps.
    checkpoint: The number of steps between two checkpoints.
    evaluate: The number of steps between two evaluations, a multiple of
      `checkpoint`, because the checkpoint with the best score is kept. 0
      evaluates at the end only, None never.
  """

  log: int = 100
  checkpoint: int = 1000
  evaluate: int | None = 1000

  def __post_init__(self):
    if self.log < 1 or self.checkpoint < 1 or (self.evaluate or 0) < 0:
      raise UserError(
        f"periods must be positive, not log={self.log}, "
        f"checkpoint={self.checkpoint}, evaluate={self.evaluate}"
      )
    if self.evaluate and self.evaluate % self.checkpoint:
      raise UserError(
        f"EVAL_PERIOD={self.evaluate} is not a multiple of "
        f"CHECKPOINT_PERIOD={self.checkpoint}: an evaluated step must have a "
        "checkpoint; choose a multiple"
      )

  @property
  def evaluates(self) -> bool:
    """Whether the run evaluates itself at all."""
    return self.evaluate is not None

  def evaluations(self, first_step: int, last_step: int) -> int:
    """Returns how often a run evaluates after one step and up to another."""
    if first_step >= last_step:
      return 0
    period = self.evaluate or last_step
    return -(-last_step // period) - first_step // period


@dataclasses.dataclass
class Outcome:
  """The outcome of a finished loop.

  Attributes:
    state: The state after the last step.
    best_step: The step with the best score; None without scores.
    best_score: The score of that step.
    budget: The cost of the run.
  """

  state: TrainState
  best_step: int | None
  best_score: float | None
  budget: Budget


def train(
  state: TrainState,
  progress: dict,
  *,
  train_steps: int,
  batches: Iterator[Batch],
  put_batch: Callable[[Batch], dict[str, jax.Array]],
  run_step: RunStep,
  evaluate: Evaluate | None,
  periods: Periods,
  watch: Watch,
  recorder: Recorder,
  checkpoints: Checkpoints,
  folder: str | os.PathLike[str],
  work: Callable[[int], float] = float,
) -> Outcome:
  """Trains from the state's step to `train_steps`.

  Args:
    state: The state to start from, which is donated step by step.
    progress: The progress that `Checkpoints.restore_newest` returned with the
      state, or {}.
    train_steps: The last step.
    batches: The batches from the state's step on.
    put_batch: The function that begins to lay a batch out on the devices,
      called for the next batch while a step runs.
    run_step: The function of one step on a batch on the devices.
    evaluate: The function that scores parameters; None to evaluate never.
    periods: The periods of logs, checkpoints and evaluations.
    watch: The reader of the metrics of steps.
    recorder: The writer of the values of evaluations.
    checkpoints: The writer of states.
    folder: The run folder.
    work: The function from a number of steps to their work in any unit, by
      which the time left is extrapolated.

  Returns:
    The outcome of the run.

  Raises:
    Preempted: SIGTERM arrived; the state is saved.
    FloatingPointError: `Guard.accepts` refused a step; its batch is saved.
  """
  step = int(state.step)
  scores = checkpoints.recall(read_lines(pathlib.Path(folder) / METRICS_FILE))
  pending = None  # Number, sums and batch of the step that is not read.

  def next_batch():
    with watch.stopwatch.spent("data_wait"):
      batch = next(batches)
    return batch, put_batch(batch)

  def read_pending():
    nonlocal pending
    if pending is not None:
      watch.read(*pending)
      pending = None

  def evaluate_now():
    with stop.saved(), watch.spent("evaluation"), display.evaluation():
      values = evaluate(state.params, step)
    recorder.record(step, values)
    scores.add(step, values)

  # A run that was killed between a checkpoint and its evaluation.
  overdue = progress.get("evaluation_due") and agreement.of_first_process(
    step not in scores.evaluated
  )
  evaluations = periods.evaluations(step, train_steps) if evaluate else 0
  with (
    agreement.stop_requests() as stop,
    contextlib.closing(watch),
    Progress(
      first_step=step,
      last_step=train_steps,
      every_steps=periods.log,
      evaluations=evaluations + bool(overdue),
      work=work,
      writing=lambda: checkpoints.stalls.writing,
    ) as display,
  ):
    if overdue:
      evaluate_now()
    if step < train_steps:
      following = next_batch()
    while step < train_steps:
      batch, on_device = following
      shapes = shapes_of(on_device)
      with watch.step(step + 1, shapes):
        state, sums = run_step(state, on_device, watch.guard.history)
      watch.guard.history = sums.pop("history", None)
      if step + 1 < train_steps:
        following = next_batch()
      read_pending()
      display.update(step, **watch.shown)
      step += 1
      pending = (step, sums, batch, shapes)
      if trace := watch.traced(step, sums):
        display.note(trace)
      last = step == train_steps
      stopping = stop(step)
      save = last or stopping or step % periods.checkpoint == 0
      if step % periods.log == 0 or save:
        read_pending()
      if step % periods.log == 0 or last:
        watch.log(step)
      evaluates = evaluate is not None and (
        last or (periods.evaluate and step % periods.evaluate == 0)
      )
      if save:
        progress = {**watch.to_json(), "evaluation_due": bool(evaluates)}
        with watch.budget.spent("saving"):
          stall = checkpoints.save(step, state, progress)
        recorder.timing(step, {"timing/checkpoint_stall_seconds": stall})
        display.note(f"checkpoint {step}: training waited {stall:.2f} s")
      if last:
        display.update(step, **watch.shown)
      if stopping and not last:
        checkpoints.finish(step, state, progress)
        if stop.interrupted:
          raise KeyboardInterrupt
        display.note(f"SIGTERM: saved step {step}; the same command resumes")
        raise Preempted
      # After the save, which it may overlap: neither a notice of preemption nor
      # a kill that comes meanwhile costs a step.
      if evaluates:
        evaluate_now()
    watch.log_rest(step)
    display.update(step, **watch.shown)
    with watch.budget.spent("saving"):
      checkpoints.finish(step, state, progress)
    display.done()
    # A preemption notice arrived since the last step.
    if stop(step + 1) and not stop.interrupted:
      display.note("SIGTERM: all is saved; the same command ends the run")
      raise Preempted
    display.note(str(checkpoints.stalls))
  return Outcome(
    state,
    scores.best_step,
    scores.best_score,
    watch.budget,
  )
