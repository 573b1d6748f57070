"""SIGTERM: a notice to save and to end, in all processes at the same step."""

from collections.abc import Callable, Iterator
import contextlib
import signal

from transformer_zoo.processes import distributed


@contextlib.contextmanager
def stop_requests() -> Iterator[Callable[[int], bool]]:
  """Yields a function that tells whether to stop after a step.

  Call it in all processes at every step: when SIGTERM has come to one of them,
  all are told the same step. Outside of the main thread no handler can be set,
  and none is.
  """
  came = []

  def stop(step: int) -> bool:
    if came and not distributed.is_initialized():
      return True
    if came:
      distributed.ask_to_stop()
    return distributed.is_stopping(step)

  try:
    before = signal.signal(signal.SIGTERM, lambda *_: came.append(True))
  except ValueError:
    yield stop
    return
  try:
    yield stop
  finally:
    signal.signal(signal.SIGTERM, before)
