"""The checkpoints of a run: saved while it trains, restored where it resumes.

Orbax copies the state to the host while training waits, and writes
`checkpoints/<step>/` under a temporary name in threads of its own; the folder
is renamed when it is complete. Beside the state lies `progress`, the few values
that the loop must remember. Then, still in the background, every process writes
checksums of the files that it wrote itself, and the first process removes the
checkpoints that no rule keeps. A save that fails is reported and leaves nothing
behind; earlier checkpoints stay.
"""

from collections.abc import Callable, Iterable, Mapping
import contextlib
import dataclasses
import json
import logging
import os
import shutil
import sys
import threading
import time

import jax
import numpy as np
import orbax.checkpoint as ocp

from transformer_zoo import errors
from transformer_zoo.errors import UserError
from transformer_zoo.processes import agreement
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.checkpoints.retention import Scores
from transformer_zoo.training.checkpoints.step_folders import is_bucket
from transformer_zoo.training.checkpoints.step_folders import StepFolders
from transformer_zoo.training.state import TrainState

# Orbax limits a save by the wall clock, which may jump. A single process waits
# for no other and needs no limit; several must not wait for ever.
_SECONDS_ALONE, _SECONDS_TOGETHER = 10**9, 600


def _print(text: str) -> None:
  print(text, flush=True)


@dataclasses.dataclass
class Stalls:
  """The time that training has waited for saves.

  Attributes:
    saves: The number of saves.
    total: Seconds waited in all of them.
    longest: Seconds waited in the slowest of them.
    writing: Seconds from the last save until it was complete, 0 before.
  """

  saves: int = 0
  total: float = 0.0
  longest: float = 0.0
  writing: float = 0.0

  def add(self, seconds: float) -> None:
    """Adds a save in which training waited so many seconds."""
    self.saves += 1
    self.total += seconds
    self.longest = max(self.longest, seconds)

  def __str__(self) -> str:
    return (
      f"{self.saves} checkpoints saved; training waited {self.total:.1f} s for "
      f"them in all, {self.longest:.2f} s at the most"
    )


class Checkpoints:
  """The checkpoints of one run.

  Attributes:
    options: The retention rules.
    scores: The scores of the run's evaluations, which rank checkpoints.
    stalls: The time that training has waited for saves.
  """

  def __init__(
    self,
    folder: str | os.PathLike[str],
    options: Checkpointing = KEEP_NEWEST_AND_BEST,
    report: Callable[[str], None] = _print,
    run: str | None = None,
    after_save: Callable[[], None] | None = None,
    saved: Callable[[TrainState], TrainState] = lambda state: state,
  ):
    """Opens the folder and removes unfinished checkpoints from it.

    Args:
      folder: The folder of the checkpoints, usually `<run>/checkpoints`, the
        same for every process. It is made if it is missing.
      options: The retention rules.
      report: A function that shows a sentence to the user.
      run: The name of the run, which claims `options.folder`.
      after_save: A function called in the background when a checkpoint is
        complete and old checkpoints have been removed.
      saved: The function from a state to what of it is saved and restored.

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
    self._after_save = after_save
    self._saved = saved
    self._finishing = False
    self._reported_grace = False
    if jax.process_index() == 0:
      self._folders.make()
      if run is not None and options.folder is not None:
        self._folders.claim(run)
      self._folders.remove_leftovers()
    self._steps = set(agreement.numbers_of_first(self._folders.steps))
    self._writer = _make_writer()
    _silence_abandoned_writes()

  def recall(self, lines: Iterable[Mapping[str, float]]) -> Scores:
    """Reads the scores from the lines of metrics.jsonl and returns them."""
    self.scores = Scores(self.options, lines)
    return self.scores

  def num_bytes(self, abstract_state: TrainState) -> int:
    """Returns the bytes of the arrays of a checkpoint, before compression.

    Args:
      abstract_state: The shapes of a state, whole.
    """
    arrays = jax.tree.leaves(self._saved(abstract_state))
    return sum(array.size * array.dtype.itemsize for array in arrays)

  def check_room(self, abstract_state: TrainState) -> None:
    """Checks that the disk can hold a checkpoint.

    Args:
      abstract_state: The shapes of a state, whole.

    Raises:
      UserError: It has less room than the arrays of one need.
    """
    root = os.fspath(self._folders.root)
    if is_bucket(root) or jax.process_index() != 0:
      return
    needed, free = self.num_bytes(abstract_state), shutil.disk_usage(root).free
    if free < needed:
      raise UserError(
        f"the disk of {root!r} has {free / 1e9:.2f} GB left and a checkpoint "
        f"needs {needed / 1e9:.2f} GB; make room, or name another MODEL_DIR"
      )

  def save(self, step: int, state: TrainState, progress: dict) -> float:
    """Starts a save, after waiting for the previous one to complete.

    Args:
      step: The number of steps made.
      state: The state of training. It is copied to the host before this
        function returns, so it may be donated.
      progress: The values that the loop must remember, for JSON.

    Returns:
      The seconds in which the caller waited.

    Raises:
      UserError: the previous save failed and `stop_at_failed_save` is set.
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
          state=ocp.args.PyTreeSave(self._saved(state)),
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
    """Saves the last state and waits until its checkpoint is complete.

    A save of the same step that has already begun is not repeated; one that
    fails is tried once more.

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

    A damaged checkpoint is reported and renamed to `<step>.damaged`. The
    processes share the work of reading all files for their checksums; then each
    reads the parts that its devices need.

    Args:
      abstract_state: The shapes, dtypes and shardings of the state. The mesh,
        the number of processes and the scanning of layers may differ from those
        of the run that saved it.

    Returns:
      What is saved of the state and the progress saved with it, or None without
      a checkpoint.

    Raises:
      UserError: a checkpoint is whole but does not fit the state.
    """
    abstract_state = self._saved(abstract_state)
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
    """Waits for a running save; closing twice is fine."""
    self._wait(tell=False)
    self._writer.close()

  def _restore(self, folder, abstract_state) -> tuple[TrainState, dict]:
    from transformer_zoo.training.checkpoints import reading

    progress = json.loads((folder / "progress" / "metadata").read_text())
    if not reading.has_layout(folder, abstract_state.params):
      from transformer_zoo.training.checkpoints import relayout

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
    """Waits for the running save, if there is one."""
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
    """Completes a save in the background."""
    try:
      self._writer.wait_until_finished()
    except Exception as error:  # Orbax raises many kinds for a bad disk.
      self._fail(step, error)
      return
    self._steps.add(step)
    self._sum(step)
    self._prune()
    if self._after_save is not None:
      self._after_save()
    seconds, grace = time.perf_counter() - started, self.options.grace_seconds
    self.stalls.writing = seconds
    if seconds > grace and not self._reported_grace:
      self._reported_grace = True
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
          f"checkpoint {step} cannot be removed ({errors.reason_of(error)})"
        )

  def _sum(self, step: int) -> None:
    folder = self._folders.of(step)
    try:
      checksums.write_share(folder, jax.process_index(), jax.process_count())
    except OSError as error:
      self._report(
        f"checkpoint {step} is saved without checksums "
        f"({errors.reason_of(error)}), so that damage may not be found"
      )

  def _fail(self, step: int, error: Exception) -> None:
    self._failure = step, errors.reason_of(error)
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
      else f"the checkpoint of step {newest} is whole"
    )

  def _cannot_be_saved(self) -> str:
    return (
      f"{self._sentence()}: make room in {str(self._folders.root)!r} and start "
      "the same command again"
    )


def _make_writer() -> ocp.AsyncCheckpointer:
  """Makes the Orbax writer of `state` (arrays) and `progress` (JSON)."""
  # Orbax logs pages about failures that are reported in one sentence.
  logging.getLogger("absl").addFilter(_is_not_of_orbax)
  return ocp.AsyncCheckpointer(
    ocp.CompositeCheckpointHandler(
      # Compression saves 8 % of the bytes of trained parameters and doubles the
      # processor time of a save.
      state=ocp.PyTreeCheckpointHandler(
        use_compression=False, type_handler_registry=_types()
      ),
      progress=ocp.JsonCheckpointHandler(),
    ),
    timeout_secs=(
      _SECONDS_ALONE if jax.process_count() == 1 else _SECONDS_TOGETHER
    ),
  )


def _types() -> ocp.type_handlers.TypeHandlerRegistry:
  numbers = ocp.type_handlers.ScalarHandler()
  return ocp.type_handlers.create_type_handler_registry(
    # With `use_replica_parallel` each copy of an array saves a slice of it. The
    # slices are cut by programs, one for every shape and device, which are
    # compiled while training waits.
    (jax.Array, ocp.type_handlers.ArrayHandler(use_replica_parallel=False)),
    (np.ndarray, ocp.type_handlers.NumpyHandler()),
    *((kind, numbers) for kind in (int, float, np.number)),
  )


def _is_not_of_orbax(record: logging.LogRecord) -> bool:
  return f"{os.sep}orbax{os.sep}" not in record.pathname


def _silence_abandoned_writes() -> None:
  """Hides the errors of the writes that Orbax abandons when a save fails.

  At the first array that cannot be written Orbax closes its event loop, and
  every other pending write then prints a traceback, behind the sentence that
  reports the failed save: as an unretrieved exception of asyncio, or as the
  callback of a TensorStore future, which Python cannot raise anywhere. Orbax
  offers no way to wait for them.
  """
  logging.getLogger("asyncio").addFilter(_is_not_abandoned)
  if not isinstance(sys.unraisablehook, _UnraisableHook):
    sys.unraisablehook = _UnraisableHook(sys.unraisablehook)


def _is_not_abandoned(record: logging.LogRecord) -> bool:
  message = record.getMessage()
  return not ("was never retrieved" in message and "orbax" in message)


class _UnraisableHook:
  """A `sys.unraisablehook` that hides callbacks into closed event loops."""

  def __init__(self, otherwise: Callable):
    self._otherwise = otherwise

  def __call__(self, unraisable) -> None:
    if str(unraisable.exc_value) != "Event loop is closed":
      self._otherwise(unraisable)
