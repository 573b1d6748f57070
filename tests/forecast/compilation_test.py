"""Memory of programs: planned, bounded, refused."""

import pathlib

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.forecast import compilation
from transformer_zoo.training.state import TrainState

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


def shape(mesh, spec, *sizes):
  sharding = NamedSharding(mesh, PartitionSpec(*spec))
  return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=sharding)


@pytest.fixture
def mesh():
  return jax.make_mesh((4,), ("data",), devices=jax.devices()[:4])


@pytest.fixture
def room(monkeypatch):
  """Sets the bytes of each device."""

  def give(number):
    monkeypatch.setattr(compilation, "device_bytes", lambda device: number)

  return give


def test_what_a_loop_hands_on_and_its_largest_product():
  def search(kernel, x):
    def turn(carry):
      number, x = carry
      return number + 1, jnp.tanh(x @ kernel) @ kernel.T

    return jax.lax.while_loop(lambda carry: carry[0] < 9, turn, (0, x))

  kernel = jax.ShapeDtypeStruct((3, 1000), jnp.float32)
  x = jax.ShapeDtypeStruct((5, 3), jnp.float32)
  found = compilation.least_bytes(jax.jit(search).trace(kernel, x).jaxpr.jaxpr)
  assert found == 4 + 4 * 5 * 3 + 4 * 5 * 1000


def test_a_tree_takes_its_shards_on_each_device(mesh):
  tree = {"split": shape(mesh, ("data",), 8, 3), "whole": shape(mesh, (), 5)}
  assert compilation.tree_bytes(tree) == 4 * (2 * 3 + 5)


def test_a_device_has_memory():
  assert compilation.device_bytes(jax.local_devices()[0]) > 2**20


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
  limit = tmp_path / "memory.max"
  monkeypatch.setattr(compilation, "_CONTAINER_LIMITS", (limit,))
  device = jax.local_devices()[0]
  of_machine = compilation.device_bytes(device)
  limit.write_text("max\n")
  assert compilation.device_bytes(device) == of_machine
  limit.write_text(f"{800 * jax.local_device_count()}\n")
  assert compilation.device_bytes(device) == 800


def test_a_state_that_does_not_fit_is_refused(mesh, room):
  state = {"params": shape(mesh, ("data",), 2**20, 1024)}  # 1 GiB a device
  device = mesh.local_devices[0]
  room(2**30)
  compilation.check_state(state, device)
  room(2**29)
  with pytest.raises(UserError) as caught:
    compilation.check_state(state, device)
  assert str(caught.value) == (
    "parameters and optimizer state need 1.0 GiB on each device, which has 0.5 "
    "GiB; choose a smaller model (EMBED_DIM, MLP_DIM, the numbers of layers), "
    "or more devices and FSDP or NUM_PARTITIONS"
  )
  room(None)
  compilation.check_state(state, device)


def test_a_step_needs_its_state_its_batch_and_its_largest_product(mesh, room):
  state = shape(mesh, (), 256, 1024)
  batch = {"x": shape(mesh, ("data",), 4096, 256)}
  jaxpr = jax.make_jaxpr(lambda w, batch: (batch["x"] @ w).sum())(state, batch)
  device = mesh.local_devices[0]
  needed = 4 * (256 * 1024 + 1024 * 256 + 1024 * 1024)
  room(needed)
  compilation.check_step(state, batch, jaxpr.jaxpr, device)
  room(needed - 1)
  with pytest.raises(UserError, match="BATCH_SIZE=4096 rows needs 0.0 GiB"):
    compilation.check_step(state, batch, jaxpr.jaxpr, device)


def test_small_programs_are_not_traced_to_be_refused(mesh, room):
  """Two stacked kernels put out 2 * 64 numbers for each of 8 * 32 tokens."""
  kept = TrainState(None, {"kernel": shape(mesh, (), 2, 16, 64)}, None)
  batch = {"ids": shape(mesh, ("data",), 8, 32)}
  device = mesh.local_devices[0]
  needed = compilation.tree_bytes((kept, batch))
  needed += 4 * (8 * 32) * (2 * 64) * (20 + 32 // 8)
  room(needed)
  assert not compilation.may_exceed(kept, batch, device)
  room(needed - 1)
  assert compilation.may_exceed(kept, batch, device)
