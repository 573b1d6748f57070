"""Agreement of several processes on what each sees differently.

SIGTERM is a notice to save and to end, in all processes at the same step
(`stop_requests`).
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
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


def is_so_on_first(known: bool) -> bool:
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


@contextlib.contextmanager
def stop_requests() -> Iterator[Callable[[int], bool]]:
  """Yields a function of the step that returns whether training stops after it.

  Call it after every step, in all processes. When SIGTERM comes to one of
  several processes, JAX agrees with all of them on one step; see
  `jax.experimental.multihost_utils.reached_preemption_sync_point`. Signals are
  handled in the main thread only; in another one the function returns False.
  """
  if threading.current_thread() is not threading.main_thread():
    yield lambda step: False
  elif distributed.is_initialized():
    with _requests_to_any_process() as stop:
      yield stop
  else:
    came = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: came.set())
    try:
      yield lambda step: came.is_set()
    finally:
      signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _requests_to_any_process() -> Iterator[Callable[[int], bool]]:
  # The public way, a setting that `jax.distributed.initialize` reads, takes
  # SIGTERM for good: evaluation and inference would ignore it.
  from jax._src import distributed as jax_distributed

  state = jax_distributed.global_state
  before = signal.getsignal(signal.SIGTERM)
  jax.config.update("jax_enable_preemption_service", True)
  state.initialize_preemption_sync_manager()
  try:
    yield multihost_utils.reached_preemption_sync_point
  finally:
    state.preemption_sync_manager.shutdown()
    state.preemption_sync_manager = None
    signal.signal(signal.SIGTERM, before)
