"""Training waits for a copy when it saves, and for nothing else."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np
import pytest

from transformer_zoo.training.checkpoints import reading as checkpointing
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.sharding import partitioning
from transformer_zoo.training.state import TrainState


@pytest.mark.slow
def test_a_donated_state_is_saved_as_it_was(tmp_path):
  """The step after a save overwrites the buffers that are being written."""
  advance = jax.jit(
    lambda state: jax.tree.map(lambda x: x + 1, state), donate_argnums=0
  )
  state = TrainState(
    step=jnp.int32(0),
    params={"kernel": jnp.zeros((4, 1 << 20))},
    opt_state=(jnp.zeros(8),),
  )
  checkpoints = Checkpoints(tmp_path, Checkpointing(newest=3))
  for _ in range(3):
    for _ in range(4):
      state = advance(state)
    checkpoints.save(int(state.step), state, {})
  for _ in range(4):
    state = advance(state)
  checkpoints.close()
  mesh = partitioning.ONE_COPY_PER_DEVICE.mesh()
  whole = NamedSharding(mesh, PartitionSpec())
  abstract = partitioning.abstract(state, jax.tree.map(lambda _: whole, state))
  for step in (4, 8, 12):
    kernel = checkpointing.restore_params(
      tmp_path / str(step), abstract.params
    )["kernel"]
    assert np.all(np.asarray(kernel) == step)


def test_nothing_is_compiled_while_training_waits(tmp_path):
  """As slices of arrays that all devices have would be, of every shape."""
  compiled = []

  def listen(event, seconds, **_):
    if "backend_compile" in event:
      compiled.append(seconds)

  shapes = [(1, 5), (7,), (11, 3)]  # Of no other test.
  state = TrainState(
    step=np.int32(1),
    params={str(shape): np.ones(shape, np.float32) for shape in shapes},
    opt_state=(),
  )
  mesh = partitioning.ONE_COPY_PER_DEVICE.mesh()
  state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
  jax.monitoring.register_event_duration_secs_listener(listen)
  checkpoints = Checkpoints(tmp_path)
  checkpoints.save(1, state, {})
  seen = len(compiled)
  jax.block_until_ready(jax.jit(lambda x: x + 1)(np.ones(13)))
  assert len(compiled) > seen == 0
  checkpoints.close()
