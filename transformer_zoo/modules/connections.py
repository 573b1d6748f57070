"""How a sublayer meets the residual stream."""

from collections.abc import Callable

import gin
import jax

Function = Callable[[jax.Array], jax.Array]


@gin.register(module="connections")
def pre_norm(
  x: jax.Array, sublayer: Function, *, norm: Function, dropout: Function
) -> jax.Array:
  """Adds dropout(sublayer(norm(x))) to x: T5, GPT-2."""
  return x + dropout(sublayer(norm(x)))


@gin.register(module="connections")
def post_norm(
  x: jax.Array, sublayer: Function, *, norm: Function, dropout: Function
) -> jax.Array:
  """Returns norm(x + dropout(sublayer(x))): Transformer of 2017, BERT."""
  return norm(x + dropout(sublayer(x)))
