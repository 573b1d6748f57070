"""Logical axes: one list, and nothing outside of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.training.sharding import partitioning


def test_known_names_pass_unchanged():
  assert axes.names("batch", None, "embed") == ("batch", None, "embed")


@pytest.mark.parametrize(
  "use",
  [
    lambda: axes.names("batch", "embedding"),
    lambda: axes.constrain(jnp.ones((2, 3)), "batch", "embedding"),
    lambda: axes.partitioned(jax.nn.initializers.zeros, "embedding"),
  ],
)
def test_an_unknown_name_is_refused_with_the_list(use):
  with pytest.raises(ValueError) as error:
    use()
  assert str(error.value) == (
    "unknown logical axis 'embedding'; allowed: batch, lookup, length, embed, "
    "vocab, mlp, expert, heads, kv, joined_kv, relpos_buckets, abspos_buckets, "
    "layers, lora_rank, adapter, prompt"
  )


def test_a_constraint_outside_of_a_mesh_changes_nothing():
  x = jnp.arange(6.0).reshape(2, 3)
  np.testing.assert_array_equal(axes.constrain(x, "batch", "embed"), x)


def parts_of(x, *logical):
  """What each device is given, as `over_mesh` hands it on."""
  seen = []

  def shape_of(part):
    seen.append(part.shape)
    return part

  y = jax.jit(lambda x: axes.over_mesh(shape_of, [x], [logical]))(x)
  np.testing.assert_array_equal(y, x)
  return seen


def test_every_device_is_given_its_part():
  x = jnp.arange(48.0).reshape(8, 6)
  layout = partitioning.Partitioning(num_partitions=2)
  assert axes.partitions("heads") == 1
  assert parts_of(x, "batch", "heads") == [(8, 6)]
  with layout.activate(layout.mesh()):
    assert (axes.partitions("batch"), axes.partitions("heads")) == (4, 2)
    assert axes.partitions("length") == axes.partitions(None) == 1
    assert parts_of(x, "batch", "heads") == [(2, 3)]
    assert parts_of(x, None, "heads") == [(8, 3)]
    # Six does not divide over four.
    assert parts_of(x.T, "batch", "heads") == [(6, 4)]


def test_what_a_mesh_does_not_divide_is_whole_and_told():
  layout = partitioning.Partitioning(num_partitions=4)
  with layout.activate(layout.mesh()), tracing.recorded_choices() as told:
    y = jax.jit(lambda x: axes.constrain(x, "batch", "length", "heads", None))(
      jnp.ones((4, 3, 2, 1))
    )
  assert y.addressable_shards[0].data.shape == (2, 3, 2, 1)
  assert list(told) == [
    "heads of 2: whole on every device, 4 along model do not divide it"
  ]
