"""Keys and values kept from one decoding step to the next.

They live in the `cache` collection of the module that owns them, so a stack
built by scan carries them stacked like its parameters.
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
    shape = (batch, decoding.length, heads, head_dim)
    cached = module.variable("cache", name, jnp.zeros, shape, new.dtype)
    cached.value = jax.lax.dynamic_update_slice_in_dim(
      cached.value, new, decoding.position, axis=1
    )
    kept.append(cached.value)
  return tuple(kept)


def compute_once(
  module: nn.Module, project: Callable[[], KeyValue]
) -> KeyValue:
  """Keys and values of a memory that stays: projected at the first step."""
  if not module.has_variable("cache", "cached_key"):
    key, value = project()
    module.variable("cache", "cached_key", lambda: key)
    module.variable("cache", "cached_value", lambda: value)
    return key, value
  return (
    module.get_variable("cache", "cached_key"),
    module.get_variable("cache", "cached_value"),
  )
