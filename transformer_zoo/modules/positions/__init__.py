"""Positions: absolute, relative and rotary.

Imports `axes` and initializers. Begin with `Positions`, from which all
kinds are computed; each other file is one kind.
"""

from flax import struct
import jax
import jax.numpy as jnp


@struct.dataclass
class Positions:
  """Positions of the queries and keys of a self-attention.

  Only their differences matter to what uses them, so packed examples, whose
  tokens do not see each other, need no positions of their own.

  Attributes:
    query_1L: int32 [1, L] or [B, L].
    key_1M: int32 [1, M] or [B, M].
    bidirectional: whether queries see keys after them; static.
    local: True where queries see near keys alone, a scalar; None of a stack
      whose layers all see as far.
  """

  query_1L: jax.Array
  key_1M: jax.Array
  bidirectional: bool = struct.field(pytree_node=False, default=False)
  local: jax.Array | None = None

  @classmethod
  def of_length(
    cls, length: int, *, bidirectional: bool = False
  ) -> "Positions":
    """Returns those of a whole sequence: 0 to length - 1 on both sides."""
    positions_1L = jnp.arange(length)[None]
    return cls(positions_1L, positions_1L, bidirectional)

  @property
  def distance_1LM(self) -> jax.Array:
    """Key position minus query position, [1 or B, L, M]."""
    return self.key_1M[:, None, :] - self.query_1L[:, :, None]
