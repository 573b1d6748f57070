"""Compilation ahead of a run, and the memory of programs.

The compiler plans what a program needs. Lower bounds are known before: they
count arrays that no compiler can avoid, and a program whose bound exceeds its
device is refused before it is compiled.
"""

from collections.abc import Sequence
import dataclasses
import math
import os
import pathlib
import re
import tempfile
import time
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
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = r"([\d.]+)([KMGT]?)i?B?"
# libtpu's two ways to say it (openxla.org/xla/errors, E1000 and E1001).
_REFUSALS = (
  re.compile(rf"\({_SIZE}\) exceeds available HBM \({_SIZE}\)"),
  re.compile(rf"Used {_SIZE} of {_SIZE} hbm"),
)


@dataclasses.dataclass(frozen=True)
class Memory:
  """Bytes on each device, as the compiler plans them.

  Attributes:
    arguments: The bytes of the program's arguments.
    outputs: The bytes of its results.
    aliased: The bytes of outputs that take the place of donated arguments.
    temporaries: The bytes of intermediate values.
    code: the program itself.
    peak: the most at one time, as far as the compiler follows it: libtpu
      counts everything, XLA for CPUs no temporaries.
  """

  arguments: int
  outputs: int
  aliased: int
  temporaries: int
  code: int
  peak: int

  @property
  def total(self) -> int:
    """All of it, were nothing ever given back within a step."""
    return self.arguments + self.outputs - self.aliased + self.temporaries


@dataclasses.dataclass(frozen=True)
class Compiled:
  """A program, or the compiler's refusal for lack of memory.

  Attributes:
    text: HLO of one device; empty if refused.
    memory: None if refused.
    needed: bytes that were refused, and None otherwise or if unknown.
    available: bytes that a device has for programs; None if unknown.
    trace_seconds: The seconds from the call until the compiler has the program.
    compile_seconds: The seconds that the compiler took.
    processor_seconds: The processor seconds of both, on all cores; they vary
      less on a busy machine.
  """

  text: str
  memory: Memory | None
  needed: int | None
  available: int | None
  trace_seconds: float
  compile_seconds: float
  processor_seconds: float


def compile_ahead(jitted: Any, arguments: Sequence[Any]) -> Compiled:
  """Compiles a jitted function for the devices of its arguments.

  Args:
    jitted: A result of `jax.jit`.
    arguments: shapes with shardings.

  Raises:
    UserError: the compiler refuses the program, and not for want of memory.
  """
  start, used = time.perf_counter(), time.process_time()
  lowered = jitted.trace(*arguments).lower()
  traced = time.perf_counter()
  with tempfile.TemporaryDirectory() as dump:
    # libtpu may be newer than jaxlib, which then cannot read all its programs,
    # for example T5.1.1 XXL for v5p. So libtpu writes them down itself.
    options = {"xla_dump_to": dump, "xla_dump_hlo_as_text": True}
    try:
      compiled = lowered.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
      if "RESOURCE_EXHAUSTED" not in str(error):
        reason = str(error).splitlines()[0]
        raise UserError(
          f"the compiler refuses this program: {reason}"
        ) from error
      needed, available = refused_bytes(str(error))
      text, memory = "", None
    else:
      needed = available = None
      text = _text_of(compiled, pathlib.Path(dump))
      memory = memory_of(compiled)
  return Compiled(
    text,
    memory,
    needed,
    available,
    traced - start,
    time.perf_counter() - traced,
    time.process_time() - used,
  )


def _text_of(compiled: jax.stages.Compiled, dump: pathlib.Path) -> str:
  """A program as it was compiled, from the compiler's dump if need be."""
  try:
    return compiled.as_text()
  except jax.errors.JaxRuntimeError as error:
    # Named `module_0000.jit_step.after_codegen.txt`, and one for each program.
    found = sorted(dump.glob("*.after_codegen.txt"))
    if len(found) != 1:
      reason = str(error).splitlines()[0]
      raise UserError(
        "the program compiles, but jaxlib cannot read what libtpu made of it "
        f"({reason}); install the libtpu that belongs to this jaxlib"
      ) from error
    return found[0].read_text()


def refused_bytes(message: str) -> tuple[int | None, int | None]:
  """Bytes that a program needs and a device has, by the compiler's message."""
  for pattern in _REFUSALS:
    if found := pattern.search(message):
      number, unit, limit, limit_unit = found.groups()
      return (
        int(float(number) * _UNITS[unit]),
        int(float(limit) * _UNITS[limit_unit]),
      )
  return None, None


def memory_of(compiled: jax.stages.Compiled) -> Memory:
  """Returns the memory that the compiler plans for a program."""
  analysis = compiled.memory_analysis()
  return Memory(
    arguments=analysis.argument_size_in_bytes,
    outputs=analysis.output_size_in_bytes,
    aliased=analysis.alias_size_in_bytes,
    temporaries=analysis.temp_size_in_bytes,
    code=analysis.generated_code_size_in_bytes,
    peak=analysis.peak_memory_in_bytes,
  )


def least_bytes(jaxpr: core.Jaxpr) -> int:
  """Returns a lower bound of the bytes that a program holds at once.

  The values that a loop hands on from turn to turn exist as a whole, and so
  does the result of a matrix product. Other values may be fused with their
  neighbours and do not count.

  Args:
    jaxpr: The traced program; its bytes are summed over all devices.
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


def may_exceed(state: Any, batch: Any, device: jax.Device) -> bool:
  """Returns whether a step has to be traced to know that it fits a device.

  The values of a step are far smaller than either of what this compares: a
  thousand times its arguments; and for each token, some twenty times what all
  matrices put out, and scores of attention, which are fewer than an eighth of
  that times the length.

  Args:
    state: The shapes, dtypes and shardings of the training state.
    batch: The same of a batch.
    device: One device of the mesh.
  """
  available = device_bytes(device)
  shapes = {leaf.shape for leaf in jax.tree.leaves(batch)}
  length = max(math.prod(shape[1:]) for shape in shapes)
  features = sum(
    leaf.size // min(leaf.shape[-2:], default=1)
    for leaf in jax.tree.leaves(state.params)
  )
  values = sum(map(math.prod, shapes)) * features * (20 + length // 8)
  arguments = tree_bytes((state, batch))
  needed = min(1000 * arguments, arguments + 4 * values)
  return available is not None and needed > available


def check_step(
  state: Any, batch: Any, jaxpr: core.Jaxpr, device: jax.Device
) -> None:
  """Checks that a training step on a batch fits a device.

  Args:
    state: The shapes, dtypes and shardings of the training state.
    batch: The bytes of a batch.
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
