"""Costs of an analysis: FLOPs and seconds, beside the bytes that it writes."""

from collections.abc import Iterator, Mapping
import contextlib
import time

from transformer_zoo.editing import programs
from transformer_zoo.forecast import cost


@contextlib.contextmanager
def measured() -> Iterator[dict[str, float]]:
  """Measures what is done inside.

  Yields:
    A dictionary that has, afterwards, `seconds` and the `flops` of the compiled
    programs (`programs.compiled`) that were called.
  """
  spent = {}
  started = time.monotonic()
  with programs.recorded_calls() as calls:
    yield spent
  spent["seconds"] = round(time.monotonic() - started, 3)
  spent["flops"] = flops(calls)


def flops(calls: Mapping[programs.Call, int]) -> int:
  """Returns the FLOPs of recorded calls; what numpy computes is not among them.

  Args:
    calls: The calls of compiled programs and how often each was made
      (`programs.recorded_calls`).
  """
  return sum(
    count * cost.count(call.function, *call.arguments).flops
    for call, count in calls.items()
  )


def line(spent: Mapping[str, float]) -> str:
  """Returns a line with `flops`, `seconds` and `bytes` of what is written."""
  return (
    f"cost: {spent['flops']:.4g} FLOPs, {spent['seconds']:.2f} s, "
    f"{spent['bytes']:,} bytes written"
  )
