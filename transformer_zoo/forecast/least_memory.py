"""Memory that a program cannot do without, known before it is compiled."""

import os

import jax
from jax.extend import core

from transformer_zoo.forecast import cost


def least_bytes(jaxpr: core.Jaxpr) -> int:
  """Bytes that a program holds at once, at the least, on all devices together.

  What a loop hands on from turn to turn is there as a whole, and so is what a
  matrix product makes in it; anything else may be fused with its neighbours.
  """
  most = 0
  for equation in jaxpr.eqns:
    bodies = core.jaxprs_in_params(equation.params)
    held = max(map(least_bytes, bodies), default=0)
    if equation.primitive.name in ("while", "dot_general"):
      held += cost.bytes_of(equation.outvars)
    most = max(most, held)
  return most


def device_bytes(device: jax.Device) -> int | None:
  """Bytes of a device's memory, None if not known.

  Of a CPU it is its share of the machine's.
  """
  stats = device.memory_stats() or {}
  if "bytes_limit" in stats:
    return stats["bytes_limit"]
  if device.platform != "cpu":
    return None
  machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  return machine // jax.local_device_count()
