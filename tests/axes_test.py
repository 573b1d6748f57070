"""Logical axes: one list, and nothing outside of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo import axes


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
    "unknown logical axis 'embedding'; allowed: batch, length, embed, vocab, "
    "mlp, heads, kv, joined_kv, relpos_buckets, abspos_buckets, layers, "
    "lora_rank, adapter, prompt"
  )


def test_a_constraint_outside_of_a_mesh_changes_nothing():
  x = jnp.arange(6.0).reshape(2, 3)
  np.testing.assert_array_equal(axes.constrain(x, "batch", "embed"), x)
