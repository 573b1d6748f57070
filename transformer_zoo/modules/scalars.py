"""Single numbers: learned factors and shifts, bounds of scores and logits."""

from flax import linen as nn
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError


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


def soft_capped(x: jax.Array, cap: float) -> jax.Array:
  """Returns cap * tanh(x / cap), which is x where that is small."""
  return cap * jnp.tanh(x / cap)


def check_cap(module: nn.Module) -> None:
  """Refuses a module whose `cap` is not positive."""
  if not module.cap > 0:
    raise UserError(
      f"{type(module).__name__}.cap is {module.cap}; it must be positive"
    )
