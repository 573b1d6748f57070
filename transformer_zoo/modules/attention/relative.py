"""Relative attention with segments (XLNet: Yang et al. 2019, section 2.4)."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention import dot_product
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.disentangled import pick_rows
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import whole_bias
from transformer_zoo.modules.positions.relative_table import RelativeTable


@gin.register
class RelativeAttention(nn.Module):
  """Attention with the relative positions of Transformer-XL and segments.

  The score of query i and key j is (q_i + u) . k_j + (q_i + v) . P(r) +
  (q_i + w) . s, divided by sqrt(head_dim): r is the vector of the distance
  i - j in the stack's `RelativeTable` (Dai et al. 2019, section 3.3), and s one
  of two vectors, for keys of the same segment and of another one.

  Attributes:
    num_heads: H.
    head_dim: K; H * K need not be d_model.
    query, key, value, out: The projections of the contents.
    position: P, the projection of the vectors of distances.
    dropout: applied to the attention weights.
    bias_init: The distribution of u, v, w and of the vectors of segments.
  """

  num_heads: int
  head_dim: int
  query: nn.Module = part(
    Linear,
    kernel_axes=("embed", "joined_kv"),
    kernel_init=initializers.fan_in_normal,
  )
  key: nn.Module = part(
    Linear,
    kernel_axes=("embed", "joined_kv"),
    kernel_init=initializers.fan_in_normal,
  )
  value: nn.Module = part(
    Linear,
    kernel_axes=("embed", "joined_kv"),
    kernel_init=initializers.fan_in_normal,
  )
  out: nn.Module = part(
    Linear,
    kernel_axes=("joined_kv", "embed"),
    kernel_init=initializers.fan_in_normal,
  )
  position: nn.Module = part(
    Linear,
    kernel_axes=("embed", "joined_kv"),
    kernel_init=initializers.fan_in_normal,
  )
  dropout: nn.Module = part(Dropout)
  bias_init: Callable = initializers.unit_normal

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    memory_BMD: jax.Array | None = None,
    *,
    relative: RelativeTable,
    differs_BLM: jax.Array | None = None,
    mask_B1LM: jax.Array | None = None,
    bias_1HLM: jax.Array | None = None,
    positions: Positions | None = None,
    score_scale: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: The input of the queries.
      memory_BMD: The input of keys and values; x if None.
      relative: The vectors of the distances, from the stack.
      differs_BLM: True where the key is of another segment than the query; all
        are of one if None.
      mask_B1LM: True where a query may attend.
      bias_1HLM: added to the scores.
      positions: not read; `relative` has the distances.
      score_scale: A factor of the scores, applied before any bias is added.
      deterministic: no dropout.
    """
    del positions
    memory_BMD = x_BLD if memory_BMD is None else memory_BMD
    query_BLHK = self._project(self.query, x_BLD)
    key_BMHK = self._project(self.key, memory_BMD)
    value_BMHK = self._project(self.value, memory_BMD)
    table_1RD = relative.table_RD.astype(x_BLD.dtype)[None]
    position_1RHK = self._project(self.position, table_1RD)
    scale = self.head_dim**-0.5
    if score_scale is not None:
      scale *= score_scale

    def query(name):
      bias_HK = self._vectors(name).astype(x_BLD.dtype)
      return (query_BLHK + bias_HK[None, None]) * jnp.asarray(
        scale, x_BLD.dtype
      )

    added_BHLM = pick_rows(
      jnp.einsum(
        "blhk,rhk->bhlr",
        query("position_bias"),
        position_1RHK[0],
        preferred_element_type=jnp.float32,
      ),
      relative.row_1LM,
    )
    of_segment_BLHK = query("segment_bias")
    same_BHL1, other_BHL1 = (
      jnp.einsum(
        "blhk,hk->bhl",
        of_segment_BLHK,
        self._vectors(name).astype(x_BLD.dtype),
        preferred_element_type=jnp.float32,
      )[..., None]
      for name in ("same_segment", "other_segment")
    )
    if differs_BLM is not None:
      added_BHLM += jnp.where(differs_BLM[:, None], other_BHL1, same_BHL1)
    if bias_1HLM is not None:
      added_BHLM += whole_bias(bias_1HLM)
    content_BLHK = query("content_bias")
    weights_BHLM = dot_product.attention_weights(
      content_BLHK,
      key_BMHK,
      masks.whole(mask_B1LM),
      added_BHLM,
      self._draw_dropout(query_BLHK, key_BMHK, deterministic),
    )
    context_BLHK = axes.constrain(
      dot_product.weighted_values(weights_BHLM, value_BMHK),
      "batch",
      "length",
      "heads",
      "kv",
    )
    context_BLX = context_BLHK.reshape(*x_BLD.shape[:-1], -1)
    return self.out(context_BLX, x_BLD.shape[-1])

  def _vectors(self, name: str) -> jax.Array:
    """A vector of each head, [H, K]."""
    init = axes.partitioned(self.bias_init, "heads", "kv")
    shape = self.num_heads, self.head_dim
    return self.param(name, init, shape, jnp.float32)

  def _draw_dropout(self, query_BLHK, key_BMHK, deterministic):
    """Returns what dropout multiplies the weights by, or None."""
    if deterministic or self.dropout.rate == 0.0:
      return None
    batch, length, heads, _ = query_BLHK.shape
    shape = (batch, heads, length, key_BMHK.shape[1])
    return self.dropout.draw(shape, query_BLHK.dtype)

  def _project(self, linear: nn.Module, y: jax.Array) -> jax.Array:
    """Returns y projected and split into heads, [B or 1, L, M or R, H, K]."""
    y = linear(y, self.num_heads * self.head_dim)
    y_BLHK = y.reshape(*y.shape[:-1], self.num_heads, self.head_dim)
    return axes.constrain(y_BLHK, "batch", "length", "heads", "kv")
