"""Linear maps: formula, dtypes, labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo.modules.linear import Linear


def test_equals_the_matrix_product():
  random = np.random.RandomState(0)
  x, kernel = random.standard_normal((2, 3, 5)), random.standard_normal((5, 7))
  bias = random.standard_normal(7)
  params = {"kernel": np.float32(kernel), "bias": np.float32(bias)}
  y = programs.apply(
    Linear(use_bias=True), {"params": params}, np.float32(x), 7
  )
  np.testing.assert_allclose(y, x @ kernel + bias, rtol=1e-5, atol=1e-5)


def test_has_no_bias_by_default_and_a_zero_one_if_asked():
  x = np.ones((1, 3), np.float32)
  without = jax.eval_shape(
    lambda key: Linear().init(key, x, 4), jax.random.key(0)
  )["params"]
  assert list(without) == ["kernel"]
  params = programs.init(Linear(use_bias=True), jax.random.key(0), x, 4)[
    "params"
  ]
  np.testing.assert_array_equal(params["bias"].unbox(), np.zeros(4))


def test_computes_in_the_dtype_of_its_input_over_float32_parameters():
  x = jax.ShapeDtypeStruct((2, 3), jnp.bfloat16)
  y, variables = jax.eval_shape(
    lambda key, x: Linear(use_bias=True).init_with_output(key, x, 4),
    jax.random.key(0),
    x,
  )
  assert y.dtype == jnp.bfloat16
  leaves = jax.tree.leaves(variables)
  assert [leaf.dtype for leaf in leaves] == [jnp.float32] * 2


def test_parameters_carry_logical_axes():
  linear = Linear(kernel_axes=("mlp", "embed"), use_bias=True)
  params = jax.eval_shape(
    lambda key: linear.init(key, np.ones((1, 3), np.float32), 4),
    jax.random.key(0),
  )["params"]
  assert params["kernel"].names == ("mlp", "embed")
  assert params["bias"].names == ("embed",)


def test_an_unknown_logical_axis_is_refused():
  linear = Linear(kernel_axes=("embed", "mpl"))
  with pytest.raises(ValueError, match="unknown logical axis 'mpl'; allowed: "):
    linear.init(jax.random.key(0), np.ones((1, 3), np.float32), 4)
