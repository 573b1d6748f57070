"""Linear maps: formula, dtypes, labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.modules.linear import Linear


def test_equals_the_matrix_product():
  random = np.random.RandomState(0)
  x, kernel = random.standard_normal((2, 3, 5)), random.standard_normal((5, 7))
  bias = random.standard_normal(7)
  params = {"kernel": jnp.float32(kernel), "bias": jnp.float32(bias)}
  y = Linear(use_bias=True).apply({"params": params}, jnp.float32(x), 7)
  np.testing.assert_allclose(y, x @ kernel + bias, rtol=1e-5, atol=1e-5)


def test_has_no_bias_by_default_and_a_zero_one_if_asked():
  x = jnp.ones((1, 3))
  without = Linear().init(jax.random.key(0), x, 4)["params"]
  assert list(without) == ["kernel"]
  params = Linear(use_bias=True).init(jax.random.key(0), x, 4)["params"]
  np.testing.assert_array_equal(params["bias"].unbox(), np.zeros(4))


def test_computes_in_the_dtype_of_its_input_over_float32_parameters():
  x = jnp.ones((2, 3), jnp.bfloat16)
  y, variables = Linear(use_bias=True).init_with_output(jax.random.key(0), x, 4)
  assert y.dtype == jnp.bfloat16
  leaves = jax.tree.leaves(variables)
  assert [leaf.dtype for leaf in leaves] == [jnp.float32] * 2


def test_parameters_carry_logical_axes():
  linear = Linear(kernel_axes=("mlp", "embed"), use_bias=True)
  params = linear.init(jax.random.key(0), jnp.ones((1, 3)), 4)["params"]
  assert params["kernel"].names == ("mlp", "embed")
  assert params["bias"].names == ("embed",)


def test_an_unknown_logical_axis_is_refused():
  linear = Linear(kernel_axes=("embed", "mpl"))
  with pytest.raises(ValueError, match="unknown logical axis 'mpl'; allowed: "):
    linear.init(jax.random.key(0), jnp.ones((1, 3)), 4)
