"""Initial distributions: the standard deviations of T5's parameters."""

import gin
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.modules import initializers

SHAPE = (256, 512)


@pytest.mark.parametrize(
  ("init", "deviation"),
  [
    (initializers.fan_in_normal, 256**-0.5),
    (initializers.fan_in_truncated_normal, 256**-0.5),
    (initializers.attention_query(head_dim=64), (256 * 64) ** -0.5),
    (
      initializers.attention_query(
        head_dim=64, scaled=initializers.normal(0.02)
      ),
      0.02 / 8,
    ),
    (initializers.unit_normal, 1.0),
    (initializers.fan_average_uniform, ((256 + 512) / 2) ** -0.5),
  ],
)
def test_deviation(init, deviation):
  drawn = np.asarray(init(jax.random.key(0), SHAPE, jnp.float32))
  assert drawn.dtype == np.float32
  assert abs(drawn.mean()) < 0.02 * deviation
  np.testing.assert_allclose(drawn.std(), deviation, rtol=0.02)


def test_each_head_has_vectors_of_length_one():
  drawn = initializers.fan_out_normal_of_heads(
    jax.random.key(0), (3, 500, 64), jnp.float32
  )
  np.testing.assert_allclose(np.std(drawn, (1, 2)), 1 / 8, rtol=0.02)
  np.testing.assert_allclose(np.linalg.norm(drawn, axis=-1).mean(), 1, 0.02)


def test_truncated_at_two_deviations_of_the_untruncated():
  drawn = np.asarray(
    initializers.fan_in_truncated_normal(jax.random.key(0), SHAPE, jnp.float32)
  )
  # 0.87962566 is the deviation of a unit normal truncated at two.
  assert np.abs(drawn).max() <= 2 * 256**-0.5 / 0.87962566 * (1 + 1e-6)


def test_the_deviation_of_gpt_2_falls_with_its_additions():
  """A layer adds twice to the residual stream: 1 / sqrt(2 * 8) of 0.02."""
  assert initializers.residual_deviation(0.02, num_layers=8) == 0.005


def test_gin_knows_them():
  for name in ("fan_in_normal", "fan_in_truncated_normal", "attention_query"):
    assert callable(gin.get_configurable(f"initializers.{name}"))
