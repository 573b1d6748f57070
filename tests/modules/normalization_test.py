"""RMSNorm against its formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.modules.normalization import rms_norm
from transformer_zoo.modules.normalization import RMSNorm


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2])
def test_equals_the_formula(epsilon):
  random = np.random.RandomState(0)
  x = random.standard_normal((2, 3, 16)) * 10.0 ** random.uniform(
    -4, 3, (2, 3, 1)
  )
  scale = random.standard_normal(16)
  expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale
  y = RMSNorm(epsilon=epsilon).apply(
    {"params": {"scale": jnp.asarray(scale, jnp.float32)}},
    jnp.asarray(x, jnp.float32),
  )
  np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)


def test_neither_centres_nor_shifts():
  params = RMSNorm().init(jax.random.key(0), jnp.ones((1, 4)))["params"]
  assert list(params) == ["scale"]
  y = RMSNorm().apply({"params": params}, jnp.full((1, 4), 3.0))
  np.testing.assert_allclose(y, np.ones((1, 4)), rtol=1e-6)


def test_a_zero_vector_stays_finite_with_its_gradient():
  gradient = jax.grad(lambda x: rms_norm(x, jnp.ones(4), 1e-6).sum())(
    jnp.zeros(4)
  )
  assert np.isfinite(gradient).all()


def test_statistics_of_bfloat16_are_float32():
  # Squares of 300 overflow nothing in bfloat16, but 4,096 of them summed in
  # it would stop growing at 256 terms.
  x = jnp.full((1, 4096), 300.0, jnp.bfloat16)
  y = rms_norm(x, jnp.ones(4096), 1e-6)
  assert y.dtype == jnp.bfloat16
  np.testing.assert_allclose(np.asarray(y, np.float32), 1.0)
