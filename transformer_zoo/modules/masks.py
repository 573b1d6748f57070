"""Attention masks: boolean, True where a query may attend to a key."""

import jax
import jax.numpy as jnp

from transformer_zoo.modules.positions import Positions


def padding_mask(query_valid_BL: jax.Array, key_valid_BM: jax.Array):
  """[B, 1, L, M]: both the query and the key are real tokens."""
  return query_valid_BL[:, None, :, None] & key_valid_BM[:, None, None, :]


def segment_mask(query_ids_BL: jax.Array, key_ids_BM: jax.Array) -> jax.Array:
  """[B, 1, L, M]: query and key belong to the same packed example."""
  return query_ids_BL[:, None, :, None] == key_ids_BM[:, None, None, :]


def causal_mask(length: int) -> jax.Array:
  """[1, 1, L, L]: the key is not after the query."""
  positions = jnp.arange(length)
  return (positions[:, None] >= positions[None, :])[None, None]


def prefix_mask(prefix_BL: jax.Array) -> jax.Array:
  """[B, 1, L, L]: query and key both belong to the prefix."""
  return prefix_BL[:, None, :, None] & prefix_BL[:, None, None, :]


def window_mask(positions: Positions, window: jax.Array | int) -> jax.Array:
  """[1 or B, 1, L, M]: the key is fewer than `window` tokens before."""
  return (positions.distance_1LM > -window)[:, None]


def combine(*masks: jax.Array | None) -> jax.Array | None:
  """The conjunction of the masks that are given, broadcast together."""
  given = [mask for mask in masks if mask is not None]
  if not given:
    return None
  combined = given[0]
  for mask in given[1:]:
    combined = combined & mask
  return combined
