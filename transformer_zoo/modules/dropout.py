"""Dropout whose mask may be shared along some axes.

A row has the same mask however many microbatches divide its batch. Masks that
are shared along an axis are drawn for the whole batch, and each part takes
those of its rows; other masks are drawn row by row, each with its own key.
"""

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

  Their masks are those that they have in the whole batch.
  """
  token = _part.set((index, number))
  try:
    yield
  finally:
    _part.reset(token)


def keys_of_rows(key: jax.Array, rows: int) -> jax.Array:
  """A key for each row of a batch, or of a part, the same however it is cut."""
  index, number = _part.get()
  places = jnp.arange(rows) * number + index
  return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, places)


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
    if any(not -3 <= dim < 3 for dim in self.broadcast_dims):
      raise UserError(
        f"Dropout.broadcast_dims is {self.broadcast_dims}; each must be an "
        "axis of [batch, length, features]: -3 to 2"
      )
    super().__post_init__()

  def __call__(self, x: jax.Array, *, deterministic: bool) -> jax.Array:
    if deterministic or self.rate == 0.0:
      return x
    return x * self.draw(x.shape, x.dtype)

  def draw(self, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """Returns the factors of one draw, 0 or 1/(1 - rate).

    Args:
      shape: The shape of the array that the factors multiply.
      dtype: The dtype of that array.

    Returns:
      Factors of this shape, 1 along `broadcast_dims`.
    """
    shared = {dim % len(shape) for dim in self.broadcast_dims}
    own = tuple(1 if i in shared else size for i, size in enumerate(shape))
    key, keep_rate = self.make_rng("dropout"), 1.0 - self.rate
    if 0 in shared:
      keep = jax.random.bernoulli(key, keep_rate, own)
    elif shared:
      keep = _small_masks(key, keep_rate, own)
    else:
      keep = _large_masks(key, keep_rate, own)
    return keep.astype(dtype) * jnp.asarray(1 / keep_rate, dtype)


def _small_masks(key, keep_rate: float, shape: tuple[int, ...]) -> jax.Array:
  """Draws those of the whole batch and takes those of this part."""
  (index, number), (rows, *rest) = _part.get(), shape
  keep = jax.random.bernoulli(key, keep_rate, (rows * number, *rest))
  if number == 1:
    return keep
  return keep.reshape(rows, number, *rest)[:, index]


def _large_masks(key, keep_rate: float, shape: tuple[int, ...]) -> jax.Array:
  """Draws those of this part alone, each row by a key of its own."""
  rows, *rest = shape
  keys = keys_of_rows(key, rows)
  return jax.vmap(lambda key: jax.random.bernoulli(key, keep_rate, rest))(keys)
