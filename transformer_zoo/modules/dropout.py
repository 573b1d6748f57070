"""Dropout whose mask may be shared along some axes."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError


@gin.register
class Dropout(nn.Module):
  """Zeroes features with probability `rate`, scales the rest by 1/(1 - rate).

  Attributes:
    rate: probability of zeroing, in [0, 1).
    broadcast_dims: axes along which one draw is shared. T5 shares it along
      the length axis, -2 (Mesh TensorFlow `noise_shape`), which also makes
      drawing the mask cheap.
  """

  rate: float = 0.0
  broadcast_dims: tuple[int, ...] = (-2,)

  def __post_init__(self):
    if not 0.0 <= self.rate < 1.0:
      raise UserError(f"dropout rate {self.rate} is not in [0, 1)")
    super().__post_init__()

  def __call__(self, x: jax.Array, *, deterministic: bool) -> jax.Array:
    if deterministic or self.rate == 0.0:
      return x
    return x * self.draw(x.shape, x.dtype)

  def draw(self, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """Returns the factors of one draw, 0 or 1/(1 - rate).

    Args:
      shape: of what they multiply.
      dtype: theirs.

    Returns:
      Factors of this shape, 1 along `broadcast_dims`.
    """
    shape = list(shape)
    for dim in self.broadcast_dims:
      shape[dim] = 1
    keep_rate = 1.0 - self.rate
    keep = jax.random.bernoulli(self.make_rng("dropout"), keep_rate, shape)
    return keep.astype(dtype) * jnp.asarray(1 / keep_rate, dtype)
