"""Disentangled attention (DeBERTa: He et al. 2021, section 3.1)."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention import dot_product
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import whole_bias
from transformer_zoo.modules.positions.relative_table import RelativeTable


def pick_rows(by_row_BHLR: jax.Array, row_1LM: jax.Array) -> jax.Array:
  """Returns the entry of each pair, [B, H, L, M], of those of each row."""
  shape = (*by_row_BHLR.shape[:3], row_1LM.shape[-1])
  return jnp.take_along_axis(
    by_row_BHLR, jnp.broadcast_to(row_1LM[:, None], shape), axis=-1
  )


@gin.register
class DisentangledAttention(nn.Module):
  """Attention whose scores are sums of products of contents and distances.

  The score of query i and key j is q_i . k_j + q_i . P_k(r) + k_j . P_q(r),
  divided by sqrt(head_dim * terms), where r is the vector of the distance i - j
  in the stack's `RelativeTable`. The second term is content to position, the
  third position to content. Products are taken with every row of the table,
  [B, H, L, R], and picked by distance.

  Attributes:
    num_heads: H.
    head_dim: K; H * K need not be d_model.
    query, key, value, out: The projections of the contents.
    content_to_position: Whether the scores have the second term.
    position_to_content: Whether the scores have the third term.
    position_key: P_k; None for the keys' projection of contents (DeBERTa v2's
      `share_att_key`).
    position_query: P_q; None for the queries' projection of contents.
    dropout: applied to the attention weights.
    position_dropout: applied to the vectors of the distances.
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
  content_to_position: bool = True
  position_to_content: bool = True
  position_key: nn.Module | None = None
  position_query: nn.Module | None = None
  dropout: nn.Module = part(Dropout)
  position_dropout: nn.Module = part(Dropout)

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    memory_BMD: jax.Array | None = None,
    *,
    relative: RelativeTable | None = None,
    mask_B1LM: jax.Array | None = None,
    bias_1HLM: jax.Array | None = None,
    positions: Positions | None = None,
    score_scale: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: The input of the queries.
      memory_BMD: The input of keys and values at the same positions; x if None.
      relative: The vectors of the distances, from the stack; not needed where
        scores are of contents alone.
      mask_B1LM: True where a query may attend.
      bias_1HLM: added to the scores.
      positions: not read; `relative` has the distances.
      score_scale: A factor of the scores, applied before any bias is added.
      deterministic: no dropout.
    """
    del positions
    bias_1HLM = whole_bias(bias_1HLM)
    memory_BMD = x_BLD if memory_BMD is None else memory_BMD
    query_BLHK = self._project(self.query, x_BLD)
    key_BMHK = self._project(self.key, memory_BMD)
    value_BMHK = self._project(self.value, memory_BMD)
    terms = 1 + self.content_to_position + self.position_to_content
    scale = (self.head_dim * terms) ** -0.5
    if score_scale is not None:
      scale *= score_scale
    query_BLHK *= jnp.asarray(scale, query_BLHK.dtype)
    if terms > 1:
      table_1RD = self._table(relative, x_BLD.dtype, deterministic)
    if self.content_to_position:
      own = self.key if self.position_key is None else self.position_key
      position_1RHK = self._project(own, table_1RD)
      scores_BHLM = pick_rows(
        _products(query_BLHK, position_1RHK), relative.row_1LM
      )
      bias_1HLM = scores_BHLM if bias_1HLM is None else bias_1HLM + scores_BHLM
    if self.position_to_content:
      own = self.query if self.position_query is None else self.position_query
      position_1RHK = self._project(own, table_1RD)
      position_1RHK *= jnp.asarray(scale, position_1RHK.dtype)
      scores_BHML = pick_rows(
        _products(key_BMHK, position_1RHK), relative.row_1LM.swapaxes(1, 2)
      )
      scores_BHLM = scores_BHML.swapaxes(2, 3)
      bias_1HLM = scores_BHLM if bias_1HLM is None else bias_1HLM + scores_BHLM
    weights_BHLM = dot_product.attention_weights(
      query_BLHK,
      key_BMHK,
      masks.whole(mask_B1LM),
      bias_1HLM,
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

  def _table(self, relative, dtype, deterministic) -> jax.Array:
    """The vectors of the distances after dropout, [1, R, D]."""
    if relative is None:
      raise UserError(
        "DisentangledAttention has terms of positions, but the stack has no "
        "table of distances; bind Stack.relative_embedder = "
        "@RelativeEmbeddings(), or content_to_position and "
        "position_to_content = False"
      )
    return self.position_dropout(
      relative.table_RD.astype(dtype)[None], deterministic=deterministic
    )

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


def _products(x_BLHK: jax.Array, position_1RHK: jax.Array) -> jax.Array:
  """Returns the products with every row of a table, float32 [B, H, L, R]."""
  return jnp.einsum(
    "blhk,rhk->bhlr",
    x_BLHK,
    position_1RHK[0],
    preferred_element_type=jnp.float32,
  )
