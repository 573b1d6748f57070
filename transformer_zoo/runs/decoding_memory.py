"""Whether devices have room for a search, before it is compiled."""

from collections.abc import Callable
from typing import Any

import jax

from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import least_memory

_GIB = 2**30


def with_room(
  jitted: Any, decoding: DecodingOptions, mesh: jax.sharding.Mesh
) -> Callable:
  """A jitted `generate`, refused where the devices have no room for it.

  Args:
    jitted: called with parameters, and arrays of a batch by name.
    decoding: its options, with their `max_length`.
    mesh: the devices.

  Returns:
    The function, which raises UserError.
  """
  known = set()

  def call(params, **batch):
    shapes = tuple((name, array.shape) for name, array in batch.items())
    if shapes not in known:
      rows = len(batch["inputs_BM"])
      _check(jitted.trace(params, **batch).jaxpr.jaxpr, decoding, mesh, rows)
      known.add(shapes)
    return jitted(params, **batch)

  return call


def _check(jaxpr, decoding, mesh, rows) -> None:
  needed = least_memory.least_bytes(jaxpr) // mesh.size
  there = least_memory.device_bytes(mesh.local_devices[0])
  if there is None or needed <= there:
    return
  outputs = max(decoding.num_beams, decoding.num_return)
  name = "num_beams" if decoding.num_beams > 1 else "num_return"
  raise UserError(
    f"{name}={outputs} for {rows} texts at a time, of up to "
    f"{decoding.max_length} tokens each, needs {needed / _GIB:,.1f} GiB or "
    f"more on each device, which has {there / _GIB:,.1f} GiB; choose a smaller "
    f"{name}, BATCH_SIZE or max_length"
  )
