"""An optimizer whose state is kept in fewer bits than it is computed in.

A moving average moves by a small share of the difference each step: 1e-3 of it
with AdamW's second moments, ever less with Adafactor's. bfloat16 has 8 bits, so
rounding to the nearest would leave the average where it stands, for good. The
state is therefore rounded up or down at random, with the probabilities that
make it right on average (Gupta et al. 2015, section 4).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax


class RoundedState(NamedTuple):
  """State of an optimizer.

  Attributes:
    count: updates made so far, int32 scalar; draws depend on it alone.
    inner: the optimizer's own, its float32 arrays in bfloat16.
  """

  count: jax.Array
  inner: optax.OptState


def in_bfloat16(
  optimizer: optax.GradientTransformation,
) -> optax.GradientTransformation:
  """Returns an optimizer with its state in bfloat16.

  Args:
    optimizer: The optimizer, which computes in float32.
  """

  def init(params):
    count = jnp.zeros([], jnp.int32)
    return RoundedState(count, _rounded(optimizer.init(params), count))

  def update(gradients, state, params=None):
    inner = jax.tree.map(
      lambda x: x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x,
      state.inner,
    )
    updates, inner = optimizer.update(gradients, inner, params)
    count = state.count + 1
    return updates, RoundedState(count, _rounded(inner, count))

  return optax.GradientTransformation(init, update)


def _rounded(state, count: jax.Array):
  """The state with its float32 arrays in bfloat16."""
  leaves, structure = jax.tree.flatten(state)
  key = jax.random.fold_in(jax.random.key(0), count)
  seeds = jax.random.bits(key, (len(leaves),))
  return structure.unflatten(
    stochastically(leaf, seed)
    if leaf.dtype == jnp.float32 and leaf.ndim
    else leaf
    for leaf, seed in zip(leaves, seeds, strict=True)
  )


def stochastically(x: jax.Array, seed: jax.Array) -> jax.Array:
  """Rounds float32 to one of the two nearest bfloat16, right on average.

  Args:
    x: float32 of any shape.
    seed: a random word.
  """
  # A bfloat16 is the upper half of a float32: what is added to the lower half
  # carries over as often as this is large.
  lower = _hashes(x.shape, seed) & 0xFFFF
  bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
  bits = jnp.where(jnp.isfinite(x), bits + lower, bits)
  upper = (bits >> 16).astype(jnp.uint16)
  return jax.lax.bitcast_convert_type(upper, jnp.bfloat16)


def _hashes(shape: tuple[int, ...], seed: jax.Array) -> jax.Array:
  """A word for each element, the same on any mesh, in a dozen operations.

  The mixing and its constants are lowbias32's (Wellons, hash-prospector); JAX's
  own generator costs ten times as many.
  """
  words = jnp.full(shape, seed, jnp.uint32)
  stride = 1
  for axis in reversed(range(len(shape))):
    places = jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    words += places * jnp.uint32(stride % 2**32)
    stride *= shape[axis]
  words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
  words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
  return words ^ (words >> 16)
