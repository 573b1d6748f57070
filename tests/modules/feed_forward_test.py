"""Feed-forward networks against numpy formulas."""

import functools
import math

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from tests import programs
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.feed_forward import ACTIVATIONS
from transformer_zoo.modules.feed_forward import GatedMlp
from transformer_zoo.modules.feed_forward import Mlp

FORMULAS = {
  "relu": lambda x: np.maximum(x, 0),
  "squared_relu": lambda x: np.maximum(x, 0) ** 2,
  "gelu": lambda x: (
    x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
  ),
  "gelu_exact": lambda x: x / 2 * (1 + special.erf(x / math.sqrt(2))),
  "silu": lambda x: x / (1 + np.exp(-x)),
  "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
  "selu": lambda x: (
    1.0507009873554805
    * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1))
  ),
  "softplus": lambda x: np.log(1 + np.exp(x)),
  "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
  "linear": lambda x: x,
}
RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((2, 3, 5))
WI_0, WI_1 = RANDOM.standard_normal((2, 5, 7))
WO = RANDOM.standard_normal((7, 5))


def apply(mlp, **kernels):
  params = {
    name: {"kernel": k.astype(np.float32)} for name, k in kernels.items()
  }
  x = X.astype(np.float32)
  return programs.apply(mlp, {"params": params}, x, deterministic=True)


@pytest.mark.parametrize("activation", FORMULAS)
def test_mlp(activation):
  y = apply(Mlp(d_ff=7, activation=activation), wi=WI_0, wo=WO)
  expected = FORMULAS[activation](X @ WI_0) @ WO
  np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", FORMULAS)
def test_gated_mlp(activation):
  y = apply(
    GatedMlp(d_ff=7, activation=activation), wi_0=WI_0, wi_1=WI_1, wo=WO
  )
  expected = (FORMULAS[activation](X @ WI_0) * (X @ WI_1)) @ WO
  np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_gradient_of_gelu_is_that_of_its_definition(dtype):
  x = np.linspace(-9, 9, 101).astype(dtype)
  found = jax.jit(jax.vmap(jax.grad(ACTIVATIONS["gelu_exact"])))(x)
  exact = np.asarray(x, np.float64)
  density = np.exp(-(exact**2) / 2) / math.sqrt(2 * math.pi)
  expected = (1 + special.erf(exact / math.sqrt(2))) / 2 + exact * density
  assert found.dtype == dtype
  tolerance = 4 * float(jnp.finfo(dtype).eps)
  np.testing.assert_allclose(
    np.asarray(found, np.float64), expected, rtol=0, atol=tolerance
  )


@pytest.mark.parametrize("module", [Mlp, GatedMlp])
def test_dropout_acts_on_the_hidden_layer(module):
  mlp = module(d_ff=7, dropout=Dropout(rate=0.5))
  x = X.astype(np.float32)
  shapes = jax.eval_shape(
    functools.partial(mlp.init, deterministic=True), jax.random.key(0), x
  )
  random = np.random.RandomState(1)
  variables = jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32),
    nn.unbox(shapes),
  )
  # With the output projection an identity, the hidden layer is seen.
  variables["params"]["wo"]["kernel"] = np.eye(7, 5, dtype=np.float32)
  keep = np.asarray(programs.apply(mlp, variables, x, deterministic=True))
  dropped = programs.apply(
    mlp, variables, x, deterministic=False, rngs={"dropout": jax.random.key(1)}
  )
  is_zero = np.isclose(dropped, 0)
  is_double = np.isclose(dropped, 2 * keep, rtol=1e-5)
  assert (is_zero | is_double).all()
  assert (is_zero & ~np.isclose(keep, 0)).any() and (is_double & ~is_zero).any()


@pytest.mark.parametrize("module", [Mlp, GatedMlp])
def test_an_unknown_activation_is_refused(module):
  with pytest.raises(
    ValueError,
    match="unknown activation 'gleu'; allowed: relu, squared_relu, gelu, "
    "gelu_exact, silu, elu, selu, softplus, sigmoid, tanh, linear",
  ):
    module(d_ff=7, activation="gleu")


def test_an_activation_may_be_a_function():
  x = np.ones((1, 1, 5), np.float32)
  named, given = (
    programs.run(
      nn.Module.init_with_output,
      Mlp(d_ff=3, activation=activation),
      jax.random.key(0),
      x,
      deterministic=True,
    )[0]
    for activation in ("relu", jax.nn.relu)
  )
  np.testing.assert_array_equal(named, given)
