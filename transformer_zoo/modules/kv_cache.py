"""Keys and values kept from one decoding step to the next.

They live in the `cache` collection of the module that owns them, so a stack
built by scan carries them stacked like its parameters. They are kept as
[B, H, K, M], which the products of attention read as it is: any other layout is
copied into this one at every step.
"""

from collections.abc import Callable

from flax import linen as nn
from flax import struct
import jax
import jax.numpy as jnp

KeyValue = tuple[jax.Array, jax.Array]


@struct.dataclass
class Decoding:
  """Where decoding stands.

  Attributes:
    position: index of the tokens' first position, int32 scalar.
    length: positions to make room for; static.
  """

  position: jax.Array
  length: int = struct.field(pytree_node=False)


def append(
  module: nn.Module, new_BLHK: KeyValue, decoding: Decoding
) -> KeyValue:
  """Writes keys and values at the position; returns those of all positions.

  Positions not yet written hold zeros: the caller's mask must hide them.
  """
  kept = []
  for name, new in zip(("cached_key", "cached_value"), new_BLHK, strict=True):
    batch, _, heads, head_dim = new.shape
    shape = (batch, heads, head_dim, decoding.length)
    cached = module.variable("cache", name, jnp.zeros, shape, new.dtype)
    cached.value = jax.lax.dynamic_update_slice_in_dim(
      cached.value, _positions_last(new), decoding.position, axis=3
    )
    kept.append(_positions_second(cached.value))
  return tuple(kept)


def compute_once(
  module: nn.Module, project: Callable[[], KeyValue]
) -> KeyValue:
  """Keys and values of a memory that stays: projected at the first step."""
  if not module.has_variable("cache", "cached_key"):
    key, value = project()
    # Without a barrier XLA moves the transposition into the loop over steps.
    kept = jax.lax.optimization_barrier(
      (_positions_last(key), _positions_last(value))
    )
    module.variable("cache", "cached_key", lambda: kept[0])
    module.variable("cache", "cached_value", lambda: kept[1])
    return key, value
  return (
    _positions_second(module.get_variable("cache", "cached_key")),
    _positions_second(module.get_variable("cache", "cached_value")),
  )


def _positions_last(x_BMHK: jax.Array) -> jax.Array:
  return jnp.transpose(x_BMHK, (0, 2, 3, 1))


def _positions_second(x_BHKM: jax.Array) -> jax.Array:
  return jnp.transpose(x_BHKM, (0, 3, 1, 2))
