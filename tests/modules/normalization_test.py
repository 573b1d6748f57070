"""Normalizations against their formulas."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo.modules.normalization import AnnotatedLayerNorm
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.normalization import rms_norm
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.normalization import RMSNormOfAllHeads
from transformer_zoo.modules.normalization import ZeroCentredRMSNorm


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2])
def test_equals_the_formula(epsilon):
  random = np.random.RandomState(0)
  x = random.standard_normal((2, 3, 16)) * 10.0 ** random.uniform(
    -4, 3, (2, 3, 1)
  )
  scale = random.standard_normal(16)
  expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale
  y = programs.apply(
    RMSNorm(epsilon=epsilon),
    {"params": {"scale": scale.astype(np.float32)}},
    x.astype(np.float32),
  )
  np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)


def test_all_heads_together_are_one_vector():
  random = np.random.RandomState(0)
  x_BLHK = random.standard_normal((2, 3, 4, 5)).astype(np.float32)
  variables = {"params": {"scale": random.standard_normal(20)}}
  y_BLHK = programs.apply(RMSNormOfAllHeads(), variables, x_BLHK)
  y_BLX = programs.apply(RMSNorm(), variables, x_BLHK.reshape(2, 3, 20))
  np.testing.assert_array_equal(y_BLHK, y_BLX.reshape(x_BLHK.shape))


def test_a_scale_around_zero_is_added_to_one():
  x = np.full((1, 4), 1.5, np.float32)
  norm = ZeroCentredRMSNorm()
  y, _ = programs.run(norm.init_with_output, jax.random.key(0), x)
  np.testing.assert_allclose(y, np.ones((1, 4)), rtol=1e-6)
  scale = np.array([-1.5, 0.0, 0.002, 2.0], np.float32)
  y = programs.apply(norm, {"params": {"scale": scale}}, x)
  np.testing.assert_allclose(y, [1 + scale], rtol=1e-6)


def test_neither_centres_nor_shifts():
  x = np.full((1, 4), 3, np.float32)
  y, variables = programs.run(
    RMSNorm.init_with_output, RMSNorm(), jax.random.key(0), x
  )
  assert list(variables["params"]) == ["scale"]
  np.testing.assert_allclose(y, np.ones((1, 4)), rtol=1e-6)


def test_a_zero_vector_stays_finite_with_its_gradient():
  gradient = jax.jit(jax.grad(lambda x: rms_norm(x, np.ones(4), 1e-6).sum()))(
    np.zeros(4, np.float32)
  )
  assert np.isfinite(gradient).all()


@functools.partial(jax.jit, static_argnums=0)
def output_and_gradient(norm, x):
  module = norm()
  variables = module.init(jax.random.key(0), x)
  y, pull = jax.vjp(lambda x: module.apply(variables, x), x)
  return y, pull(jnp.arange(8.0).reshape(2, 4))[0]


@pytest.mark.parametrize(
  "norm", [RMSNorm, ZeroCentredRMSNorm, LayerNorm, AnnotatedLayerNorm]
)
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_vector_stays_finite_with_its_gradient(norm, value):
  y, gradient = output_and_gradient(norm, np.full((2, 4), value, np.float32))
  assert np.isfinite(y).all() and np.isfinite(gradient).all()


def test_statistics_of_bfloat16_are_float32():
  # Squares of 300 overflow nothing in bfloat16, but 4,096 of them summed in
  # it would stop growing at 256 terms.
  x = np.full((1, 4096), 300.0, jnp.bfloat16)
  y = programs.run(rms_norm, x, np.ones(4096, np.float32), 1e-6)
  assert y.dtype == jnp.bfloat16
  np.testing.assert_allclose(np.asarray(y, np.float32), 1.0)


def layer_norm_of(x, scale, bias, epsilon):
  centred = x - x.mean(-1, keepdims=True)
  deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
  return centred / deviation * scale + bias


def test_layer_norm():
  scale, bias = np.array([1.0, 2.0, -1.0, 0.5]), np.array([0.0, 1.0, 2.0, 3.0])
  x = np.random.RandomState(0).standard_normal((2, 3, 4)).astype(np.float32)
  y = programs.apply(
    LayerNorm(epsilon=0.1), {"params": {"scale": scale, "bias": bias}}, x
  )
  np.testing.assert_allclose(
    y, layer_norm_of(x, scale, bias, 0.1), rtol=1e-5, atol=1e-6
  )
  y = programs.apply(LayerNorm(use_bias=False), {"params": {"scale": scale}}, x)
  np.testing.assert_allclose(
    y, layer_norm_of(x, scale, 0.0, 1e-5), rtol=1e-5, atol=1e-6
  )


def test_annotated_layer_norm_divides_by_the_unbiased_deviation():
  x = np.random.RandomState(0).standard_normal((2, 3, 4)).astype(np.float32)
  module = AnnotatedLayerNorm(epsilon=0.1)
  y, variables = programs.run(
    AnnotatedLayerNorm.init_with_output, module, jax.random.key(0), x
  )
  assert set(variables["params"]) == {"scale", "bias"}
  centred = x - x.mean(-1, keepdims=True)
  expected = centred / (x.std(-1, ddof=1, keepdims=True) + 0.1)
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
