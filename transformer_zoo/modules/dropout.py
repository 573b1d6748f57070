"""Dropout whose mask may be shared along some axes."""

from collections.abc import Iterator
import contextlib
import contextvars

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError

# Of a batch in parts: the number of this part, and of all.
WHOLE_BATCH = (0, 1)
_part = contextvars.ContextVar("part of the batch", default=WHOLE_BATCH)


@contextlib.contextmanager
def microbatch(index: jax.Array, number: int) -> Iterator[None]:
  """Makes the rows of what is traced inside rows `index::number` of a batch.

  Their masks are those that they have in the whole batch, which is drawn for
  each part: XLA fuses the choice of rows into the drawing where it draws
  without a loop.
  """
  token = _part.set((index, number))
  try:
    yield
  finally:
    _part.reset(token)


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
    broadcast = {dim % len(shape) for dim in self.broadcast_dims}
    own = [1 if i in broadcast else size for i, size in enumerate(shape)]
    index, number = WHOLE_BATCH if 0 in broadcast else _part.get()
    keep_rate = 1.0 - self.rate
    keep = jax.random.bernoulli(
      self.make_rng("dropout"), keep_rate, (own[0] * number, *own[1:])
    )
    if number > 1:
      keep = keep.reshape(own[0], number, *own[1:])[:, index]
    return keep.astype(dtype) * jnp.asarray(1 / keep_rate, dtype)
