"""Compiling a program ahead of its run, and what it will need of memory."""

from collections.abc import Sequence
import dataclasses
import pathlib
import re
import tempfile
import time
from typing import Any

import jax

from transformer_zoo.errors import UserError

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
    needed: bytes that were refused, and None otherwise or if it is not told.
    available: bytes that a device has for programs; None if it is not told.
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
    # libtpu may be newer than jaxlib, which then cannot read all its programs:
    # not those of T5.1.1 XXL for v5p. So libtpu writes them down itself.
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
