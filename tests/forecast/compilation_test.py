"""Memory of a program, and a compiler that refuses it."""

import pathlib

import jax
import jax.numpy as jnp
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.forecast import compilation

# As libtpu 0.0.52 says it, and as earlier ones did.
TOO_LARGE = (
  "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the "
  "total memory required for HLO temporaries (21.50G) exceeds available HBM "
  "(15.75G). HLO module: jit__step.\nSee https://openxla.org/xla/errors"
)
TOO_LARGE_BEFORE = (
  "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.34G of "
  "15.75G hbm. Exceeded hbm capacity by 4.59G.\n\nTotal hbm usage >= 20.59G:"
)
GIB = 2**30


class Refusing:
  """A jitted function that no compiler takes."""

  def __init__(self, message):
    self.message = message

  def trace(self, *arguments):
    del arguments
    return self

  def lower(self):
    return self

  def compile(self, compiler_options):
    del compiler_options
    raise jax.errors.JaxRuntimeError(self.message)


class Unreadable(Refusing):
  """A jitted function whose compiled form jaxlib cannot read."""

  def __init__(self, names):
    super().__init__("INTERNAL: RET_CHECK failure\nmore")
    self.names = names

  def compile(self, compiler_options):
    for name in self.names:
      path = pathlib.Path(compiler_options["xla_dump_to"], name)
      path.write_text(f"HloModule {name}")
    return self

  def as_text(self):
    raise jax.errors.JaxRuntimeError(self.message)

  def memory_analysis(self):
    return jax.jit(jnp.sin).lower(1.0).compile().memory_analysis()


@pytest.mark.parametrize(
  "message, needed", [(TOO_LARGE, 21.5), (TOO_LARGE_BEFORE, 20.34)]
)
def test_too_large(message, needed):
  found = compilation.compile_ahead(Refusing(message), ())
  assert found.memory is None and found.text == ""
  assert found.needed == int(needed * GIB)
  assert found.available == int(15.75 * GIB)


def test_too_large_without_numbers():
  found = compilation.compile_ahead(Refusing("RESOURCE_EXHAUSTED: no room"), ())
  assert (found.memory, found.needed, found.available) == (None, None, None)


def test_refused_for_another_reason():
  with pytest.raises(UserError) as caught:
    compilation.compile_ahead(Refusing("INTERNAL: no such layout\nmore"), ())
  assert str(caught.value) == (
    "the compiler refuses this program: INTERNAL: no such layout"
  )


def test_a_program_that_jaxlib_cannot_read_is_taken_from_libtpus_dump():
  names = ["module_0.jit_f.after_codegen.txt", "module_0.jit_f.flagfile"]
  found = compilation.compile_ahead(Unreadable(names), ())
  assert found.text == f"HloModule {names[0]}"
  assert found.memory is not None


def test_a_program_that_nobody_can_read():
  with pytest.raises(UserError) as caught:
    compilation.compile_ahead(Unreadable(["module_0.jit_f.flagfile"]), ())
  assert str(caught.value) == (
    "the program compiles, but jaxlib cannot read what libtpu made of it "
    "(INTERNAL: RET_CHECK failure); install the libtpu that belongs to this "
    "jaxlib"
  )


def test_memory_is_the_compilers():
  shape = jax.ShapeDtypeStruct((256, 256), jnp.float32)
  jitted = jax.jit(lambda x, y: (x @ y, x + 1), donate_argnums=0)
  found = compilation.compile_ahead(jitted, (shape, shape))
  memory, size = found.memory, 256 * 256 * 4
  assert (memory.arguments, memory.aliased) == (2 * size, size)
  assert size * 2 <= memory.outputs <= size * 2 + 64
  assert memory.total == (
    memory.arguments + memory.outputs - memory.aliased + memory.temporaries
  )
  assert "HloModule" in found.text
