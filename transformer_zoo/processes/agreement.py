"""Agreement of several processes on what each sees differently.

SIGTERM and Ctrl-C are notices to save and to end, in all processes at the same
step (`stop_requests`).
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import os
import signal
import threading
from typing import TypeVar

import jax
from jax.experimental import multihost_utils
import numpy as np

from transformer_zoo import errors
from transformer_zoo.processes import distributed

_Value = TypeVar("_Value")
_REASON_BYTES = 400
_INTERRUPTED = (
  b"\ninterrupted: this step is finished and saved; Ctrl-C again ends at once, "
  b"without saving\n"
)


def wait(what: str) -> None:
  """Waits until every process has come to this place of the program.

  Args:
    what: a name of the place, the same on all processes.
  """
  if jax.process_count() > 1:
    multihost_utils.sync_global_devices(what)


def numbers_of_first(make: Callable[[], Sequence[int]]) -> list[int]:
  """Returns on every process the numbers that the first process makes."""
  if jax.process_count() == 1:
    return list(make())
  mine = np.asarray(
    make() if jax.process_index() == 0 else (), np.int32
  ).reshape(-1)
  size = int(multihost_utils.broadcast_one_to_all(np.int32(mine.size)))
  numbers = mine if jax.process_index() == 0 else np.zeros(size, np.int32)
  return np.asarray(multihost_utils.broadcast_one_to_all(numbers)).tolist()


def of_first_process(known: bool) -> bool:
  """Returns on every process what the first process passes."""
  return bool(numbers_of_first(lambda: [known])[0])


def first_failure(
  attempt: Callable[[], _Value],
) -> tuple[_Value | None, str | None]:
  """Calls a function on every process; all learn whether one call failed.

  Returns:
    The value of this process's call, None if it failed; and the reason of the
    first process whose call failed, None if all succeeded.
  """
  value, reason = None, ""
  try:
    value = attempt()
  except Exception as error:  # Orbax raises many kinds for a bad file.
    reason = errors.reason_of(error)
  if jax.process_count() == 1:
    return value, reason or None
  text = np.zeros(_REASON_BYTES, np.uint8)
  encoded = reason.encode()[:_REASON_BYTES]
  text[: len(encoded)] = np.frombuffer(encoded, np.uint8)
  for received in multihost_utils.process_allgather(text):
    reason = bytes(received).rstrip(b"\0").decode(errors="replace")
    if reason:
      return value, reason
  return value, None


class StopRequests:
  """The requests to end training after a step, from SIGTERM or Ctrl-C.

  Attributes:
    interrupted: True if Ctrl-C asked.
  """

  def __init__(self):
    self.interrupted = False
    self._came = False
    self._is_saved = False

  def __call__(self, step: int) -> bool:
    """Returns whether training stops after a step."""
    return self._came

  def terminate(self, *_) -> None:
    """Handles SIGTERM."""
    self._came = True

  def interrupt(self, *_) -> None:
    """Handles SIGINT: a second one, or one with nothing to save, ends at once.

    Raises:
      KeyboardInterrupt: It does.
    """
    if self.interrupted or self._is_saved:
      raise KeyboardInterrupt
    self.interrupted = self._came = True
    # Not `print`: it may be the call that the signal has interrupted.
    os.write(2, _INTERRUPTED)

  @contextlib.contextmanager
  def saved(self) -> Iterator[None]:
    """Lets Ctrl-C end the run at once, as its newest step is saved."""
    self._is_saved = True
    try:
      if self.interrupted:
        raise KeyboardInterrupt
      yield
    finally:
      self._is_saved = False


class _StopsTogether(StopRequests):
  """Requests to one of several processes, which all of them follow."""

  def __call__(self, step: int) -> bool:
    return multihost_utils.reached_preemption_sync_point(step)

  def interrupt(self, *_) -> None:
    signal.raise_signal(signal.SIGTERM)


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequests]:
  """Yields a function of the step that returns whether training stops after it.

  Call it after every step, in all processes. When a signal comes to one of
  several processes, JAX agrees with all of them on one step; see
  `jax.experimental.multihost_utils.reached_preemption_sync_point`. Signals are
  handled in the main thread only; in another one the function returns False.
  """
  if threading.current_thread() is not threading.main_thread():
    yield StopRequests()
    return
  together = distributed.is_initialized()
  stop = _StopsTogether() if together else StopRequests()
  before = {
    number: signal.getsignal(number)
    for number in (signal.SIGTERM, signal.SIGINT)
  }
  if before[signal.SIGINT] is not signal.SIG_IGN:  # As for `command &`.
    signal.signal(signal.SIGINT, stop.interrupt)
  try:
    with contextlib.ExitStack() as stack:
      if together:
        stack.enter_context(_preemption_service())
      else:
        signal.signal(signal.SIGTERM, stop.terminate)
      yield stop
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


@contextlib.contextmanager
def _preemption_service() -> Iterator[None]:
  # The public way, a setting that `jax.distributed.initialize` reads, takes
  # SIGTERM for good: evaluation and inference would ignore it.
  from jax._src import distributed as jax_distributed

  state = jax_distributed.global_state
  jax.config.update("jax_enable_preemption_service", True)
  state.initialize_preemption_sync_manager()
  try:
    yield
  finally:
    state.preemption_sync_manager.shutdown()
    state.preemption_sync_manager = None
