"""Single numbers that are learned."""

from flax import linen as nn
import jax
import jax.numpy as jnp

from transformer_zoo import axes


class Scale(nn.Module):
  """x times a number.

  Attributes:
    initial: the number at first.
  """

  initial: float = 1.0

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    init = nn.initializers.constant(self.initial)
    scale = self.param("scale", axes.partitioned(init), (), jnp.float32)
    return x * scale.astype(x.dtype)


class Shift(nn.Module):
  """x plus a number, at first 0."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    init = axes.partitioned(nn.initializers.zeros)
    shift = self.param("shift", init, (), jnp.float32)
    return x + shift.astype(x.dtype)
