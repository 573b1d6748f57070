"""Lower bounds of memory, of shapes that are easy to count."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.forecast import least_memory


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
    monkeypatch.setattr(least_memory, "device_bytes", lambda device: number)

  return give


def test_what_a_loop_hands_on_and_its_largest_product():
  def search(kernel, x):
    def turn(carry):
      number, x = carry
      return number + 1, jnp.tanh(x @ kernel) @ kernel.T

    return jax.lax.while_loop(lambda carry: carry[0] < 9, turn, (0, x))

  kernel = jax.ShapeDtypeStruct((3, 1000), jnp.float32)
  x = jax.ShapeDtypeStruct((5, 3), jnp.float32)
  found = least_memory.least_bytes(jax.jit(search).trace(kernel, x).jaxpr.jaxpr)
  assert found == 4 + 4 * 5 * 3 + 4 * 5 * 1000


def test_a_tree_takes_its_shards_on_each_device(mesh):
  tree = {"split": shape(mesh, ("data",), 8, 3), "whole": shape(mesh, (), 5)}
  assert least_memory.tree_bytes(tree) == 4 * (2 * 3 + 5)


def test_a_device_has_memory():
  assert least_memory.device_bytes(jax.local_devices()[0]) > 2**20


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
  limit = tmp_path / "memory.max"
  monkeypatch.setattr(least_memory, "_CONTAINER_LIMITS", (limit,))
  device = jax.local_devices()[0]
  of_machine = least_memory.device_bytes(device)
  limit.write_text("max\n")
  assert least_memory.device_bytes(device) == of_machine
  limit.write_text(f"{800 * jax.local_device_count()}\n")
  assert least_memory.device_bytes(device) == 800


def test_a_state_that_does_not_fit_is_refused(mesh, room):
  state = {"params": shape(mesh, ("data",), 2**20, 1024)}  # 1 GiB a device
  device = mesh.local_devices[0]
  room(2**30)
  least_memory.check_state(state, device)
  room(2**29)
  with pytest.raises(UserError) as caught:
    least_memory.check_state(state, device)
  assert str(caught.value) == (
    "parameters and optimizer state need 1.0 GiB on each device, which has 0.5 "
    "GiB; choose a smaller model (EMBED_DIM, MLP_DIM, the numbers of layers), "
    "or more devices and FSDP or NUM_PARTITIONS"
  )
  room(None)
  least_memory.check_state(state, device)


def test_a_step_needs_its_state_its_batch_and_its_largest_product(mesh, room):
  state = shape(mesh, (), 256, 1024)
  batch = {"x": shape(mesh, ("data",), 4096, 256)}
  jaxpr = jax.make_jaxpr(lambda w, batch: (batch["x"] @ w).sum())(state, batch)
  device = mesh.local_devices[0]
  needed = 4 * (256 * 1024 + 1024 * 256 + 1024 * 1024)
  room(needed)
  least_memory.check_step(state, batch, jaxpr.jaxpr, device)
  room(needed - 1)
  with pytest.raises(UserError, match="BATCH_SIZE=4096 rows needs 0.0 GiB"):
    least_memory.check_step(state, batch, jaxpr.jaxpr, device)


def test_small_programs_are_not_traced_to_be_refused(mesh, room):
  arguments = shape(mesh, ("data",), 8, 32)  # 256 bytes a device
  device = mesh.local_devices[0]
  room(256_000)
  assert not least_memory.may_exceed(arguments, device)
  room(255_999)
  assert least_memory.may_exceed(arguments, device)
