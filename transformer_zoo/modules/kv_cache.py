"""Keys and values kept from one decoding step to the next.

They live in the `cache` collection of the module that owns them, so a stack
built by scan carries them stacked like its parameters. They are kept as
[B, H, K, M], which the products of attention read as it is: any other layout is
copied into this one at every step.

A row may have W outputs in the making, beams or samples, which are read as W
tokens of one position. Slot `position * W + w` holds what output w had there. A
beam that continues another one reads that one's slots: nothing is copied, a
mask says whose slot is read. The keys of a memory are shared by all W.
"""

from collections.abc import Callable

from flax import linen as nn
from flax import struct
import jax
import jax.numpy as jnp

from transformer_zoo import axes

KeyValue = tuple[jax.Array, jax.Array]


@struct.dataclass
class Decoding:
  """Where decoding stands.

  Attributes:
    position: of the tokens, int32 scalar.
    ancestors_BWL: whose slot each output reads at each position; its own where
      None.
    length: positions to make room for; static.
    width: W, tokens of one position; static.
  """

  position: jax.Array
  ancestors_BWL: jax.Array | None = None
  length: int = struct.field(pytree_node=False, kw_only=True)
  width: int = struct.field(pytree_node=False, default=1)

  @property
  def key_positions_M(self) -> jax.Array:
    """Position of each slot."""
    return jnp.repeat(jnp.arange(self.length), self.width)

  @property
  def mask_B1WM(self) -> jax.Array:
    """Which slots each output reads: [B or 1, 1, W, length * W]."""
    written_L = jnp.arange(self.length) <= self.position
    outputs_W = jnp.arange(self.width)
    ancestors_BWL = self.ancestors_BWL
    if ancestors_BWL is None:
      ancestors_BWL = jnp.broadcast_to(
        outputs_W[None, :, None], (1, self.width, self.length)
      )
    read_BWLW = ancestors_BWL[..., None] == outputs_W[None, None, None]
    read_BWLW &= written_L[None, None, :, None]
    rows = read_BWLW.shape[0]
    return read_BWLW.reshape(rows, 1, self.width, self.length * self.width)


def append(
  module: nn.Module, new_BWHK: KeyValue, decoding: Decoding
) -> KeyValue:
  """Writes keys and values at the position; returns those of all slots.

  Slots not yet written hold zeros: the caller's mask must hide them.
  """
  kept = []
  for name, new in zip(("cached_key", "cached_value"), new_BWHK, strict=True):
    batch, width, heads, head_dim = new.shape
    shape = (batch, heads, head_dim, decoding.length * width)
    cached = module.variable("cache", name, jnp.zeros, shape, new.dtype)
    cached.value = _laid_out(
      jax.lax.dynamic_update_slice_in_dim(
        cached.value, _positions_last(new), decoding.position * width, axis=3
      )
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
    module.variable("cache", "cached_key", lambda: _laid_out(kept[0]))
    module.variable("cache", "cached_value", lambda: _laid_out(kept[1]))
    return key, value
  return (
    _positions_second(module.get_variable("cache", "cached_key")),
    _positions_second(module.get_variable("cache", "cached_value")),
  )


def _laid_out(x_BHKM: jax.Array) -> jax.Array:
  return axes.constrain(x_BHKM, "batch", "heads", "kv", "length")


def _positions_last(x_BMHK: jax.Array) -> jax.Array:
  return jnp.transpose(x_BMHK, (0, 2, 3, 1))


def _positions_second(x_BHKM: jax.Array) -> jax.Array:
  return jnp.transpose(x_BHKM, (0, 3, 1, 2))
