"""Agreement of several processes on what each sees differently."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
from jax.experimental import multihost_utils
import numpy as np

from transformer_zoo.training.checkpoints import reading

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
    reason = reading.reason_of(error)
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
