"""The checkpoints of a run: saved while it trains, restored where it resumes.

Orbax copies the state to the host while training waits, and writes
`checkpoints/<step>/` under a temporary name in threads of its own; the folder
gets its name when all of it is there. Beside the state lies `progress`, the
little that the loop must remember. Then, still in the background, every process
writes checksums of the files that it wrote itself, and the first one removes
the checkpoints that no rule keeps. A save that fails is told and leaves nothing
behind; the ones before it stay.
"""

from collections.abc import Callable, Iterable, Mapping
import contextlib
import json
import os
import threading
import time

import jax
import orbax.checkpoint as ocp

from transformer_zoo.errors import UserError
from transformer_zoo.training import agreement
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints import orbax_writer
from transformer_zoo.training.checkpoints import reading
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.checkpoints.retention import Scores
from transformer_zoo.training.checkpoints.stalls import Stalls
from transformer_zoo.training.checkpoints.step_folders import StepFolders
from transformer_zoo.training.sharding import relayout
from transformer_zoo.training.state import TrainState


def _print(text: str) -> None:
  print(text, flush=True)


class Checkpoints:
  """The checkpoints of one run.

  Attributes:
    options: what is kept.
    scores: of the run's evaluations, by which the best are kept.
    stalls: how long training has waited.
  """

  def __init__(
    self,
    folder: str | os.PathLike[str],
    options: Checkpointing = KEEP_NEWEST_AND_BEST,
    report: Callable[[str], None] = _print,
    run: str | None = None,
  ):
    """Opens `folder`, made when missing, and removes what a kill left in it.

    Args:
      folder: usually `<run>/checkpoints`; every process sees the same.
      options: what is kept.
      report: called with one sentence for what a user should know.
      run: name of the run, which `options.folder` then belongs to.

    Raises:
      UserError: `options.folder` belongs to another run.
    """
    self.options = options
    self.scores = Scores(options)
    self.stalls = Stalls()
    self._folders = StepFolders(folder)
    self._report = report if jax.process_index() == 0 else lambda text: None
    self._running: tuple[int, threading.Thread] | None = None
    self._failure: tuple[int, str] | None = None
    self._finishing = False
    self._told_grace = False
    if jax.process_index() == 0:
      self._folders.make()
      if run is not None and options.folder is not None:
        self._folders.claim(run)
      self._folders.remove_leftovers()
    self._steps = set(agreement.numbers_of_first(self._folders.steps))
    self._writer = orbax_writer.make_writer()

  def recall(self, lines: Iterable[Mapping[str, float]]) -> Scores:
    """Takes the scores from a run's metrics.jsonl, and returns them."""
    self.scores = Scores(self.options, lines)
    return self.scores

  def save(self, step: int, state: TrainState, progress: dict) -> float:
    """Starts to save; waits for the save before, if that still runs.

    Args:
      step: steps made.
      state: copied to the host before this returns, so it may be donated.
      progress: JSON.

    Returns:
      Seconds in which the caller waited.

    Raises:
      UserError: the save before has failed and `stop_at_failed_save` is set.
    """
    if step in self._steps or (self._running and self._running[0] == step):
      return 0.0
    started = time.perf_counter()
    self._wait()
    if self._failure and self.options.stop_at_failed_save:
      raise UserError(self._cannot_be_saved())
    self._failure = None
    try:
      self._writer.save(
        self._folders.of(step),
        args=ocp.args.Composite(
          state=ocp.args.PyTreeSave(state),
          progress=ocp.args.JsonSave(progress),
        ),
      )
    except Exception as error:  # Orbax raises many kinds for a bad disk.
      self._fail(step, error)
    else:
      self._start(self._complete, step, started)
    seconds = time.perf_counter() - started
    self.stalls.add(seconds)
    return seconds

  def finish(self, step: int, state: TrainState, progress: dict) -> None:
    """Saves, unless that has been begun, and waits until it is complete.

    A save that has failed is tried once more.

    Raises:
      UserError: it fails again.
    """
    self._finishing = True
    self.save(step, state, progress)
    self._wait(tell=False)
    if self._failure is not None:
      self._report(f"{self._sentence()}; it is tried once more")
      self.save(step, state, progress)
      self._wait(tell=False)
    if self._failure is not None:
      raise UserError(self._cannot_be_saved())

  def restore_newest(
    self, abstract_state: TrainState
  ) -> tuple[TrainState, dict] | None:
    """Restores the newest checkpoint that is whole.

    A damaged one is told and put aside as `<step>.damaged`. The processes share
    the reading of all files for their checksums; then each reads what its
    devices need.

    Args:
      abstract_state: shapes, dtypes and shardings of the state; the mesh, the
        number of processes and whether layers are scanned may be others than
        where it was saved.

    Returns:
      The state and the progress saved with it, or None without a checkpoint.

    Raises:
      UserError: a checkpoint is whole, but of another program.
    """
    for step in sorted(self._steps, reverse=True):
      folder = self._folders.of(step)
      whole, reason = agreement.first_failure(
        lambda folder=folder: checksums.verify_share(
          folder, jax.process_index(), jax.process_count()
        )
      )
      if reason is not None:
        self._put_aside(step, reason)
        continue
      restored, reason = agreement.first_failure(
        lambda folder=folder: self._restore(folder, abstract_state)
      )
      if reason is None:
        if not whole:  # The run was killed before the checksums were written.
          self._start(self._sum, step)
        return restored
      if whole:
        raise UserError(
          f"checkpoint {str(folder)!r} is whole but cannot be restored "
          f"({reason}); if no binding has changed, another version of the "
          "program wrote it: use that one, or another MODEL_DIR"
        )
      self._put_aside(step, reason)
    return None

  def close(self) -> None:
    """Waits for what still runs; closing twice is fine."""
    self._wait(tell=False)
    self._writer.close()

  def _restore(self, folder, abstract_state) -> tuple[TrainState, dict]:
    progress = json.loads((folder / "progress" / "metadata").read_text())
    if not reading.has_layout(folder, abstract_state.params):
      return relayout.restore(folder, abstract_state), progress
    # The handler's own: a checkpointer would wait for the others, one of which
    # may have failed.
    state = ocp.StandardCheckpointHandler().restore(
      folder / "state", args=ocp.args.StandardRestore(abstract_state)
    )
    return state, progress

  def _put_aside(self, step: int, reason: str) -> None:
    if jax.process_index() == 0:
      damaged = self._folders.put_aside(step)
      self._report(
        f"checkpoint {step} is damaged ({reason}); it is put aside as "
        f"{damaged} and the one before is used"
      )
    agreement.wait("put aside")
    self._steps.discard(step)

  def _start(self, task: Callable[..., None], step: int, *more) -> None:
    thread = threading.Thread(target=task, args=(step, *more))
    self._running = step, thread
    thread.start()

  def _wait(self, tell: bool = True) -> None:
    """Waits for the save that runs."""
    if self._running is None:
      return
    step, thread = self._running
    if tell and thread.is_alive():
      self._report(
        f"checkpoint {step} is still being written; training waits for it"
      )
    thread.join()
    self._running = None

  def _complete(self, step: int, started: float) -> None:
    """What is left of a save, in the background."""
    try:
      self._writer.wait_until_finished()
    except Exception as error:  # Orbax raises many kinds for a bad disk.
      self._fail(step, error)
      return
    self._steps.add(step)
    self._sum(step)
    self._prune()
    seconds, grace = time.perf_counter() - started, self.options.grace_seconds
    if seconds > grace and not self._told_grace:
      self._told_grace = True
      self._report(
        f"checkpoint {step} was complete after {seconds:.0f} s: longer than "
        f"the {grace:g} s that a notice of preemption leaves "
        "(Checkpointing.grace_seconds); a preempted run would go on from an "
        "older one"
      )

  def _prune(self) -> None:
    kept = self.options.kept(self._steps, self.scores.by_step)
    gone, self._steps = self._steps - kept, self._steps & kept
    for step in gone if jax.process_index() == 0 else ():
      try:
        self._folders.remove(step)
      except OSError as error:
        self._report(
          f"checkpoint {step} cannot be removed ({reading.reason_of(error)})"
        )

  def _sum(self, step: int) -> None:
    folder = self._folders.of(step)
    try:
      checksums.write_share(folder, jax.process_index(), jax.process_count())
    except OSError as error:
      self._report(
        f"checkpoint {step} is saved without checksums "
        f"({reading.reason_of(error)}), so that damage may not be found"
      )

  def _fail(self, step: int, error: Exception) -> None:
    self._failure = step, reading.reason_of(error)
    if jax.process_index() == 0:
      with contextlib.suppress(OSError):  # The next start tries again.
        self._folders.remove_leftovers()
    if not (self._finishing or self.options.stop_at_failed_save):
      self._report(f"{self._sentence()}; training goes on to the next save")

  def _sentence(self) -> str:
    step, reason = self._failure
    newest = max(self._steps - {step}, default=None)
    return f"checkpoint {step} could not be saved ({reason}); " + (
      "there is none before it"
      if newest is None
      else f"that of step {newest} is whole"
    )

  def _cannot_be_saved(self) -> str:
    return (
      f"{self._sentence()}: make room in {str(self._folders.root)!r} and start "
      "the same command again"
    )
