"""Random bits by counter: Threefry-2x32 (Salmon et al. 2011).

Additions, rotations and exclusive ors of 32-bit integers alone, which every
compiler of kernels has; the bits equal those of `jax.extend.random`.
"""

import jax
from jax import lax
import jax.numpy as jnp

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def threefry(
  key: tuple[jax.Array, jax.Array], counter: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
  """Encrypts a counter of two words by a key of two, in 20 rounds.

  Args:
    key: Two int32 arrays.
    counter: Two int32 arrays that broadcast with each other and the key's.

  Returns:
    Two int32 arrays of random bits.
  """
  keys = (*key, key[0] ^ key[1] ^ jnp.int32(_PARITY))
  x, y = counter[0] + keys[0], counter[1] + keys[1]
  for i in range(5):
    for places in _ROTATIONS[i % 2]:
      x += y
      y = _rotated(y, places) ^ x
    x += keys[(i + 1) % 3]
    y += keys[(i + 2) % 3] + jnp.int32(i + 1)
  return x, y


def _rotated(x: jax.Array, places: int) -> jax.Array:
  """The bits of x moved to the left, the first of them to the end."""
  return lax.shift_left(x, jnp.int32(places)) | lax.shift_right_logical(
    x, jnp.int32(32 - places)
  )
