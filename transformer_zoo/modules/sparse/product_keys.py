"""Product-key memories: a table of vectors, of which each token reads a few."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.parts import part


@gin.register
class ProductKeyMemory(nn.Module):
  """A memory in the place of a feed-forward network (Lample et al. 2019).

  A key is a pair of two halves, each from a table of its own, so that the best
  of num_keys^2 keys are found among pairs of the best halves. Each head reads
  the values of its best keys, weighted by a softmax of their scores; heads are
  added up and have their values in common. Queries are normalized by a
  LayerNorm for each half, as in Mesh TensorFlow, and not over the batch as in
  the paper.

  Attributes:
    num_keys: The number of half keys in a table; values are its square.
    key_dim: The size of a key, both halves.
    num_heads: The number of heads.
    num_read: The number of values that a head reads for each token.
    query: The projection to the queries of all heads.
    query_norm: The normalization of each half of a query.
    key_init: The distribution of the half keys.
    value_init: The distribution of the values.
  """

  num_keys: int
  key_dim: int
  num_heads: int
  num_read: int = 32
  query: nn.Module = part(
    Linear, kernel_axes=("embed", "joined_kv"), use_bias=True
  )
  query_norm: nn.Module = part(LayerNorm, epsilon=1e-6, axis="kv")
  key_init: Callable = initializers.fan_out_normal
  value_init: Callable = initializers.unit_normal

  def __post_init__(self):
    if self.key_dim % 2:
      raise UserError(
        f"ProductKeyMemory.key_dim is {self.key_dim}; it must be even, for two "
        "halves of equal size"
      )
    if not 1 <= self.num_read <= self.num_keys:
      raise UserError(
        f"ProductKeyMemory.num_read is {self.num_read}; it must be from 1 to "
        f"num_keys, {self.num_keys}"
      )
    super().__post_init__()

  @nn.compact
  def __call__(self, x_BLD: jax.Array, *, deterministic: bool) -> jax.Array:
    """Returns [B, L, D]; X is the half keys of a table, P the values read."""
    del deterministic
    heads, half = self.num_heads, self.key_dim // 2
    query_BLX = self.query(x_BLD, heads * self.key_dim)
    query_BLH2K = query_BLX.reshape(*x_BLD.shape[:2], heads, 2, half)
    query_BLH2K = self.query_norm(query_BLH2K)
    keys_XK = self.param(
      "keys",
      axes.partitioned(self.key_init, "heads", "kv"),
      (heads * 2 * self.num_keys, half),
      jnp.float32,
    )
    keys_H2XK = keys_XK.astype(x_BLD.dtype).reshape(heads, 2, -1, half)
    scores_BLH2X = jnp.einsum("BLHSK,HSXK->BLHSX", query_BLH2K, keys_H2XK)
    weights_BLHP, places_BLHP = self._best(scores_BLH2X.astype(jnp.float32))
    values_XD = self.param(
      "values",
      axes.partitioned(self.value_init, "vocab", "embed"),
      (self.num_keys**2, x_BLD.shape[-1]),
      jnp.float32,
    )
    read_BLHPD = jnp.take(values_XD, places_BLHP, axis=0).astype(x_BLD.dtype)
    return jnp.einsum(
      "BLHPD,BLHP->BLD", read_BLHPD, weights_BLHP.astype(x_BLD.dtype)
    )

  def _best(self, scores_BLH2X: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The weights and places of the values that each head reads."""
    best_BLH2P, halves_BLH2P = jax.lax.top_k(scores_BLH2X, self.num_read)
    pairs, places = (
      first_BLHP[..., :, None] + second_BLHP[..., None, :]
      for first_BLHP, second_BLHP in (
        (best_BLH2P[..., 0, :], best_BLH2P[..., 1, :]),
        (self.num_keys * halves_BLH2P[..., 0, :], halves_BLH2P[..., 1, :]),
      )
    )
    flat = (*pairs.shape[:-2], self.num_read**2)
    best_BLHP, chosen_BLHP = jax.lax.top_k(pairs.reshape(flat), self.num_read)
    places_BLHP = jnp.take_along_axis(
      places.reshape(flat), chosen_BLHP, axis=-1
    )
    return jax.nn.softmax(best_BLHP), places_BLHP
