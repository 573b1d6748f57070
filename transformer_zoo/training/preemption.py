"""SIGTERM: a notice to save and to end, in all processes at the same step."""

from collections.abc import Callable, Iterator
import contextlib
import signal
import threading

import jax
from jax.experimental import multihost_utils

from transformer_zoo.processes import distributed


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
