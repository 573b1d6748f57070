"""Vectors by distance that meet queries, or weights, inside attention."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.positions import Positions


@gin.register
class RelativeVectors(nn.Module):
  """Learned vectors a_K, and a_V, of clipped distances (Shaw et al. 2018).

  The score of query i and key j gains q_i . a_K[j - i], and what value j adds
  gains a_V[j - i]. The heads of a layer share the vectors. Without values and
  with vectors of each head's own it is Music Transformer's relative attention
  (Huang et al. 2018), and BERT's `relative_key` in `transformers` otherwise.

  Attributes:
    head_dim: K.
    max_distance: distances beyond are clipped to it; 16 in Shaw et al.
    with_values: whether there are vectors for values too.
    num_heads: if given, every head has vectors of its own.
    embedding_init: distribution of the vectors.
  """

  head_dim: int
  max_distance: int = 16
  with_values: bool = True
  num_heads: int | None = None
  embedding_init: Callable = initializers.fan_average_uniform

  def __post_init__(self):
    if self.max_distance < 1:
      raise UserError(
        f"RelativeVectors.max_distance is {self.max_distance}; it must be at "
        "least 1"
      )
    super().__post_init__()

  def setup(self):
    self.relative_keys = self._table("relative_keys")
    if self.with_values:
      self.relative_values = self._table("relative_values")

  def scores(self, query_BLHK: jax.Array, positions: Positions) -> jax.Array:
    """Returns what the scores gain, float32 [B, H, L, M]."""
    # One product per distance, not per pair of positions: H * L * R of them.
    by_distance_BHLR = jnp.einsum(
      "blhk,hrk->bhlr" if self.num_heads else "blhk,rk->bhlr",
      query_BLHK,
      self.relative_keys.astype(query_BLHK.dtype),
      preferred_element_type=jnp.float32,
    )
    rows_1LM = self._rows(positions)
    shape = (*by_distance_BHLR.shape[:3], rows_1LM.shape[-1])
    return jnp.take_along_axis(
      by_distance_BHLR,
      jnp.broadcast_to(rows_1LM[:, None], shape),
      axis=-1,
    )

  def values(self, weights_BHLM: jax.Array, positions: Positions) -> jax.Array:
    """Returns what the context gains, [B, L, H, K]."""
    if not self.with_values:
      return jnp.zeros((), weights_BHLM.dtype)
    one_hot_1LMR = jax.nn.one_hot(
      self._rows(positions), 2 * self.max_distance + 1, dtype=weights_BHLM.dtype
    )
    by_distance_BHLR = jnp.einsum("bhlm,blmr->bhlr", weights_BHLM, one_hot_1LMR)
    return jnp.einsum(
      "bhlr,hrk->blhk" if self.num_heads else "bhlr,rk->blhk",
      by_distance_BHLR,
      self.relative_values.astype(weights_BHLM.dtype),
    )

  def _rows(self, positions: Positions) -> jax.Array:
    """Returns the row of the tables for each pair, [1 or B, L, M]."""
    limit = self.max_distance
    return jnp.clip(positions.distance_1LM, -limit, limit) + limit

  def _table(self, name: str) -> jax.Array:
    shape = (2 * self.max_distance + 1, self.head_dim)
    names = ("relpos_buckets", "kv")
    if self.num_heads:
      shape, names = (self.num_heads, *shape), ("heads", *names)
    return self.param(
      name, axes.partitioned(self.embedding_init, *names), shape, jnp.float32
    )
