"""Dropout whose mask may be shared along some axes.

A row has the same mask however many microbatches divide its batch. Masks that
are shared along an axis are drawn for the whole batch, and each part takes the
masks of its rows; other masks are drawn row by row, each with its own key.
"""

from collections.abc import Iterator
import contextlib
import contextvars

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError

# Of a batch in parts: the number of this part, the number of all parts, and the
# number of copies of each row.
WHOLE_BATCH = (0, 1, 1)
_part = contextvars.ContextVar("part of the batch", default=WHOLE_BATCH)


@contextlib.contextmanager
def microbatch(index: jax.Array, number: int) -> Iterator[None]:
  """Makes the rows of what is traced inside rows `index::number` of a batch.

  Their masks are those that they have in the whole batch.
  """
  token = _part.set((index, number, 1))
  try:
    yield
  finally:
    _part.reset(token)


@contextlib.contextmanager
def copies(number: int) -> Iterator[None]:
  """Makes the rows of what is traced inside copies of the batch's rows.

  Those of one row lie side by side. Each has a mask of its own, the one that it
  has in the whole batch.
  """
  index, parts, _ = _part.get()
  token = _part.set((index, parts, number))
  try:
    yield
  finally:
    _part.reset(token)


def places_of_rows(rows: int) -> jax.Array:
  """The place of each row of a part in the whole batch, int32 [rows]."""
  index, number, of_row = _part.get()
  places = jnp.arange(rows)
  return (places // of_row * number + index) * of_row + places % of_row


def keys_of_rows(key: jax.Array, rows: int) -> jax.Array:
  """A key for each row of a batch, or of a part, the same however it is cut."""
  places = places_of_rows(rows)
  return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, places)


@struct.dataclass
class Draw:
  """The factors of one draw of dropout, and what decides them.

  Attributes:
    key: The random key.
    keep_rate: The probability that a factor is not 0.
    shape: The shape of the array that the factors multiply.
    dtype: The dtype of that array.
    shared: The axes along which one draw is shared.
  """

  key: jax.Array
  keep_rate: float = struct.field(pytree_node=False)
  shape: tuple[int, ...] = struct.field(pytree_node=False)
  dtype: jnp.dtype = struct.field(pytree_node=False)
  shared: frozenset[int] = struct.field(pytree_node=False)

  def array(self) -> jax.Array:
    """Returns the factors, 0 or 1/keep_rate, 1 along the shared axes."""
    own = tuple(
      1 if i in self.shared else size for i, size in enumerate(self.shape)
    )
    if 0 in self.shared:
      keep = jax.random.bernoulli(self.key, self.keep_rate, own)
    elif self.shared:
      keep = _small_masks(self.key, self.keep_rate, own)
    else:
      return jax.vmap(self.of_row)(self.keys_B())
    return self._factors(keep)

  def keys_B(self) -> jax.Array:
    """The keys of the rows of a draw that no axis shares."""
    return keys_of_rows(self.key, self.shape[0])

  def of_row(self, key: jax.Array) -> jax.Array:
    """Returns the factors of the row of one of the keys, for a part of all."""
    return self._factors(
      jax.random.bernoulli(key, self.keep_rate, self.shape[1:])
    )

  def _factors(self, keep: jax.Array) -> jax.Array:
    return keep.astype(self.dtype) * jnp.asarray(1 / self.keep_rate, self.dtype)

  def places_B(self) -> jax.Array:
    """The place of each row in the whole batch, or 0 if rows share a draw."""
    places_B = places_of_rows(self.shape[0])
    return jnp.zeros_like(places_B) if 0 in self.shared else places_B


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
    return self.described(shape, dtype).array()

  def described(self, shape: tuple[int, ...], dtype: jnp.dtype) -> Draw:
    """Returns the draw whose factors `draw` returns."""
    shared = frozenset(dim % len(shape) for dim in self.broadcast_dims)
    key, keep_rate = self.make_rng("dropout"), 1.0 - self.rate
    return Draw(key, keep_rate, shape, dtype, shared)


def _small_masks(key, keep_rate: float, shape: tuple[int, ...]) -> jax.Array:
  """Draws masks of the whole batch and takes the rows of this part."""
  (index, number, of_row), (rows, *rest) = _part.get(), shape
  keep = jax.random.bernoulli(key, keep_rate, (rows * number, *rest))
  if number == 1:
    return keep
  parts = keep.reshape(-1, number, of_row, *rest)
  return parts[:, index].reshape(shape)
