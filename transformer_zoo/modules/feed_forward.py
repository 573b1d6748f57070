"""Position-wise feed-forward networks."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part


@jax.custom_vjp
def _gelu_exact(x: jax.Array) -> jax.Array:
  """GELU by the error function, whose gradient is computed from x alone.

  JAX's own keeps x, the error function and the density for it.
  """
  return jax.nn.gelu(x, approximate=False)


def _gelu_exact_backward(x, gradient):
  # Else XLA computes the error function once, and keeps it till then.
  x = jax.lax.optimization_barrier(x)
  probability = 0.5 * jax.lax.erfc(-x * np.sqrt(0.5).astype(x.dtype))
  density = jnp.exp(-0.5 * x * x) * np.sqrt(0.5 / np.pi).astype(x.dtype)
  return (gradient * (probability + x * density),)


_gelu_exact.defvjp(lambda x: (_gelu_exact(x), x), _gelu_exact_backward)

ACTIVATIONS = {
  "relu": jax.nn.relu,
  "squared_relu": lambda x: jnp.square(jax.nn.relu(x)),
  # The tanh form, which T5.1.1 was trained with (`gelu_new` elsewhere).
  "gelu": lambda x: jax.nn.gelu(x, approximate=True),
  "gelu_exact": _gelu_exact,
  "silu": jax.nn.silu,  # Swish with beta 1
  "elu": jax.nn.elu,
  "selu": jax.nn.selu,
  "softplus": jax.nn.softplus,
  "sigmoid": jax.nn.sigmoid,
  "tanh": jnp.tanh,
  "linear": lambda x: x,
}


# A key of `ACTIVATIONS`, or a function that gin binds as `@name`.
Activation = str | Callable[[jax.Array], jax.Array]


def check_activation(given: Activation) -> None:
  """Raises UserError for what is no function and no key of `ACTIVATIONS`."""
  if not callable(given) and given not in ACTIVATIONS:
    raise UserError(
      f"unknown activation {given!r}; allowed: {', '.join(ACTIVATIONS)}, or a "
      "function of yours that is registered with gin, as @my_activation"
    )


def activation(given: Activation) -> Callable[[jax.Array], jax.Array]:
  """Returns the function of an activation."""
  return given if callable(given) else ACTIVATIONS[given]


@gin.register(module="feed_forward")
def equal_width(
  d_ff: int, *, of_matrices: int, matrices: int, multiple_of: int = 1
) -> int:
  """Width that gives another feed-forward network the same parameters.

  A gated layer has three matrices where a plain one has two, so it gets two
  thirds of the width (Shazeer 2020, section 3.1).

  Args:
    d_ff: a width.
    of_matrices: matrices of the network that has it.
    matrices: The number of matrices of the other network.
    multiple_of: A divisor of the other width, which is rounded to it.
  """
  width = d_ff * of_matrices / matrices
  return max(1, round(width / multiple_of)) * multiple_of


@gin.register
class Mlp(nn.Module):
  """wo(activation(wi(x))) (Vaswani et al. 2017, section 3.3).

  Attributes:
    d_ff: width of the hidden layer.
    activation: a key of `ACTIVATIONS`, or a function.
    wi, wo: the projections in and out.
    dropout: applied to the hidden layer.
  """

  d_ff: int
  activation: Activation = "relu"
  wi: nn.Module = part(Linear, kernel_axes=("embed", "mlp"))
  wo: nn.Module = part(Linear, kernel_axes=("mlp", "embed"))
  dropout: nn.Module = part(Dropout)

  def __post_init__(self):
    check_activation(self.activation)
    super().__post_init__()

  @nn.compact
  def __call__(self, x_BLD: jax.Array, *, deterministic: bool) -> jax.Array:
    hidden_BLF = activation(self.activation)(self.wi(x_BLD, self.d_ff))
    hidden_BLF = self.dropout(hidden_BLF, deterministic=deterministic)
    hidden_BLF = axes.constrain(hidden_BLF, "batch", "length", "mlp")
    return self.wo(hidden_BLF, x_BLD.shape[-1])


@gin.register
class GatedMlp(nn.Module):
  """wo(activation(wi_0(x)) * wi_1(x)) (Shazeer 2020).

  Attributes:
    d_ff: width of the hidden layer.
    activation: The activation of the gate, a key of `ACTIVATIONS`: 'sigmoid' is
      GLU, 'linear' Bilinear, 'relu' ReGLU, 'gelu' GEGLU, 'silu' SwiGLU.
    wi_0, wi_1, wo: the projections of gate and value, and out.
    dropout: applied to the hidden layer.
  """

  d_ff: int
  activation: Activation = "gelu"
  wi_0: nn.Module = part(Linear, kernel_axes=("embed", "mlp"))
  wi_1: nn.Module = part(Linear, kernel_axes=("embed", "mlp"))
  wo: nn.Module = part(Linear, kernel_axes=("mlp", "embed"))
  dropout: nn.Module = part(Dropout)

  def __post_init__(self):
    check_activation(self.activation)
    super().__post_init__()

  @nn.compact
  def __call__(self, x_BLD: jax.Array, *, deterministic: bool) -> jax.Array:
    gate_BLF = activation(self.activation)(self.wi_0(x_BLD, self.d_ff))
    hidden_BLF = gate_BLF * self.wi_1(x_BLD, self.d_ff)
    hidden_BLF = self.dropout(hidden_BLF, deterministic=deterministic)
    hidden_BLF = axes.constrain(hidden_BLF, "batch", "length", "mlp")
    return self.wo(hidden_BLF, x_BLD.shape[-1])


@gin.register
class GatedLinearUnit(nn.Module):
  """value(x) * sigmoid(gate(x)), as wide as x (Dauphin et al. 2017).

  Attributes:
    value, gate: the projections.
  """

  value: nn.Module = part(Linear, use_bias=True)
  gate: nn.Module = part(Linear, use_bias=True)

  @nn.compact
  def __call__(self, x_BLD: jax.Array) -> jax.Array:
    width = x_BLD.shape[-1]
    return self.value(x_BLD, width) * nn.sigmoid(self.gate(x_BLD, width))
