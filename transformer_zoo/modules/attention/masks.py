"""Attention masks: boolean, True where a query may attend to a key."""

import gin
import jax
import jax.numpy as jnp

from transformer_zoo.modules.positions import Positions


def padding_mask(query_valid_BL: jax.Array, key_valid_BM: jax.Array):
  """[B, 1, L, M]: both the query and the key are real tokens."""
  return query_valid_BL[:, None, :, None] & key_valid_BM[:, None, None, :]


def segment_mask(query_ids_BL: jax.Array, key_ids_BM: jax.Array) -> jax.Array:
  """[B, 1, L, M]: query and key belong to the same packed example."""
  return query_ids_BL[:, None, :, None] == key_ids_BM[:, None, None, :]


@gin.register
def causal_mask(length: int) -> jax.Array:
  """[1, 1, L, L]: the key is not after the query."""
  positions = jnp.arange(length)
  return (positions[:, None] >= positions[None, :])[None, None]


def prefix_mask(prefix_BL: jax.Array) -> jax.Array:
  """[B, 1, L, L]: query and key both belong to the prefix."""
  return prefix_BL[:, None, :, None] & prefix_BL[:, None, None, :]


def window_mask(positions: Positions, window: jax.Array | int) -> jax.Array:
  """[1 or B, 1, L, M]: the key is fewer than `window` tokens away.

  Keys after the query are no nearer than those before it where queries see
  them.
  """
  seen_1LM = positions.distance_1LM > -window
  if positions.bidirectional:
    seen_1LM &= positions.distance_1LM < window
  return seen_1LM[:, None]


def attention_kind_mask(kind_B: jax.Array, second_BL: jax.Array) -> jax.Array:
  """[B, 1, L, L]: who sees whom in UniLM (Dong et al. 2019, figure 1).

  Args:
    kind_B: 0 bidirectional, 1 sequence to sequence (the first segment sees
      itself, the second sees the first and what is not after it), 2 left to
      right, 3 right to left: the places of
      `transformer_zoo.corruption.unified_lm.ATTENTION_KINDS`.
    second_BL: True in the second segment.
  """
  before_11LM = causal_mask(second_BL.shape[1])
  query_B1L1 = second_BL[:, None, :, None]
  key_B11M = second_BL[:, None, None, :]
  kind_B111 = kind_B[:, None, None, None]
  return jnp.where(
    kind_B111 < 2,
    (kind_B111 == 0) | ~key_B11M | (query_B1L1 & before_11LM),
    jnp.where(kind_B111 == 2, before_11LM, before_11LM.swapaxes(-1, -2)),
  )


def combine(*masks: jax.Array | None) -> jax.Array | None:
  """The conjunction of the masks that are given, broadcast together."""
  given = [mask for mask in masks if mask is not None]
  if not given:
    return None
  combined = given[0]
  for mask in given[1:]:
    combined = combined & mask
  return combined
