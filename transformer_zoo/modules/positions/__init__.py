"""Positions: absolute, relative and rotary.

Imports `axes` and initializers. Begin with `Positions`, from which all
kinds are computed; each other file is one kind.
"""

from flax import linen as nn
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
    counted: Whether both count their tokens from 0 on; static.
  """

  query_1L: jax.Array
  key_1M: jax.Array
  bidirectional: bool = struct.field(pytree_node=False, default=False)
  local: jax.Array | None = None
  counted: bool = struct.field(pytree_node=False, default=False)

  @classmethod
  def of_length(
    cls, length: int, *, bidirectional: bool = False
  ) -> "Positions":
    """Returns positions of a whole sequence, 0 to length - 1."""
    positions_1L = jnp.arange(length)[None]
    return cls(positions_1L, positions_1L, bidirectional, counted=True)

  @property
  def distance_1LM(self) -> jax.Array:
    """Key position minus query position, [1 or B, L, M]."""
    return self.key_1M[:, None, :] - self.query_1L[:, :, None]

  @property
  def distances_R(self) -> jax.Array:
    """Every distance of counted positions, from 1 - L to M - 1."""
    return jnp.arange(1 - self.query_1L.shape[1], self.key_1M.shape[1])


@struct.dataclass
class Bias:
  """A bias of the scores that depends on the distance alone.

  Attributes:
    array_1HLM: The bias of every query and key.
    by_distance_1HR: The bias of key minus query, from 1 - L to M - 1.
    of_summaries_1HR: The bias of summaries of tokens (attention/summaries.py)
      by the distance of their numbers, from 1 - L to M - 1; None without.
  """

  array_1HLM: jax.Array
  by_distance_1HR: jax.Array
  of_summaries_1HR: jax.Array | None = None


def score_bias(module: nn.Module, positions: Positions) -> jax.Array | Bias:
  """The bias of a module, by distance too where it can be."""
  array_1HLM = module(positions)
  if not positions.counted or not hasattr(module, "by_distance"):
    return array_1HLM
  of_summaries_1HR = None
  if hasattr(module, "of_summaries"):
    of_summaries_1HR = module.of_summaries(positions)[None]
  return Bias(array_1HLM, module.by_distance(positions)[None], of_summaries_1HR)


def whole_bias(bias: jax.Array | Bias | None) -> jax.Array | None:
  """The array of a bias."""
  return bias.array_1HLM if isinstance(bias, Bias) else bias


def sum_of_biases(first: jax.Array | Bias, second: jax.Array | Bias):
  """The sum of two biases, by distance where both are."""
  if isinstance(first, Bias) and isinstance(second, Bias):
    return jax.tree.map(jnp.add, first, second)
  return whole_bias(first) + whole_bias(second)
