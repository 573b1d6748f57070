"""Lower bounds of the memory of programs, known before they are compiled.

A program that exceeds its device is refused at once. The bounds count arrays
that no compiler can avoid, so what is refused would not have fitted.
"""

import math
import os
import pathlib
from typing import Any

import jax
from jax.extend import core

from transformer_zoo.errors import UserError
from transformer_zoo.forecast import cost

_GIB = 2**30
# The memory of a container, by version 2 and 1 of Linux' control groups.
_CONTAINER_LIMITS = (
  pathlib.Path("/sys/fs/cgroup/memory.max"),
  pathlib.Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def least_bytes(jaxpr: core.Jaxpr) -> int:
  """Returns a lower bound of the bytes that a program holds at once.

  The values that a loop hands on from turn to turn exist as a whole, and so
  does the result of a matrix product. Other values may be fused with their
  neighbours and do not count.

  Args:
    jaxpr: The traced program; its bytes are those of all devices together.
  """
  most = 0
  for equation in jaxpr.eqns:
    bodies = core.jaxprs_in_params(equation.params)
    held = max(map(least_bytes, bodies), default=0)
    if equation.primitive.name in ("while", "dot_general"):
      held += cost.bytes_of(equation.outvars)
    most = max(most, held)
  return most


def tree_bytes(tree: Any) -> int:
  """Returns the bytes that a tree takes on each device.

  Args:
    tree: Arrays, or shapes and dtypes, each with its sharding.
  """
  return sum(
    math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
    for leaf in jax.tree.leaves(tree)
  )


def device_bytes(device: jax.Device) -> int | None:
  """Returns the bytes of a device's memory, None if it is unknown.

  A CPU device has an equal share of the memory of its machine or container.
  """
  stats = device.memory_stats() or {}
  if "bytes_limit" in stats:
    return stats["bytes_limit"]
  if device.platform != "cpu":
    return None
  limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
  for file in _CONTAINER_LIMITS:
    if file.exists() and (limit := file.read_text().strip()).isdigit():
      limits.append(int(limit))
  return min(limits) // jax.local_device_count()


def check_state(state: Any, device: jax.Device) -> None:
  """Checks that parameters and optimizer state fit a device.

  Args:
    state: The shapes, dtypes and shardings of the training state.
    device: One device of the mesh.

  Raises:
    UserError: The state alone needs more memory than the device has.
  """
  needed, available = tree_bytes(state), device_bytes(device)
  if available is not None and needed > available:
    raise UserError(
      f"parameters and optimizer state need {_gib(needed)} on each device, "
      f"which has {_gib(available)}; choose a smaller model (EMBED_DIM, "
      "MLP_DIM, the numbers of layers), or more devices and FSDP or "
      "NUM_PARTITIONS"
    )


def may_exceed(arguments: Any, device: jax.Device) -> bool:
  """Returns whether a program has to be traced to know that it fits a device.

  The values of a step are far smaller than a thousand times its arguments: a
  token of a batch takes some 30 bytes, and its widest value some thousand
  numbers.

  Args:
    arguments: The shapes, dtypes and shardings of the arguments.
    device: One device of the mesh.
  """
  available = device_bytes(device)
  return available is not None and 1000 * tree_bytes(arguments) > available


def check_step(
  state: Any, batch: Any, jaxpr: core.Jaxpr, device: jax.Device
) -> None:
  """Checks that a training step on a batch fits a device.

  Args:
    state: The shapes, dtypes and shardings of the training state.
    batch: The shapes, dtypes and shardings of a batch.
    jaxpr: The traced step.
    device: One device of the mesh.

  Raises:
    UserError: State, batch and the largest value that the step computes need
      more memory than the device has.
  """
  available = device_bytes(device)
  devices = len(jax.tree.leaves(batch)[0].sharding.device_set)
  computed = least_bytes(jaxpr) // devices
  needed = tree_bytes(state) + tree_bytes(batch) + computed
  if available is not None and needed > available:
    rows, *_ = jax.tree.leaves(batch)[0].shape
    raise UserError(
      f"a step on BATCH_SIZE={rows} rows needs {_gib(needed)} or more on each "
      f"device, which has {_gib(available)}; choose a smaller BATCH_SIZE or "
      "shorter TASK_FEATURE_LENGTHS, a larger NUM_MICROBATCHES, or more devices"
    )


def _gib(number: int) -> str:
  return f"{number / _GIB:,.1f} GiB"
