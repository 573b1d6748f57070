"""Disentangled attention (DeBERTa: He et al. 2021, section 3.1)."""

import functools

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention import chunked
from transformer_zoo.modules.attention import dot_product
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.kernels import ROWWISE_BYTES
from transformer_zoo.modules.dropout import Draw
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import whole_bias
from transformer_zoo.modules.positions.relative_table import RelativeTable

_LOGICAL_AXES = {
  "key_position_1RHK": (None, None, "heads", "kv"),
  "query_position_1RHK": (None, None, "heads", "kv"),
  "row_1LM": ("batch", None, None),
  "heads_1H": (None, "heads"),
  "keys_B": ("batch",),
}


def pick_rows(by_row_BHLR: jax.Array, row_1LM: jax.Array) -> jax.Array:
  """Returns the entry of each pair, [B, H, L, M], from those in its row.

  Of a single row of the batch, B may be left out of both.
  """
  shape = (*by_row_BHLR.shape[:-1], row_1LM.shape[-1])
  row_1HLM = jnp.broadcast_to(row_1LM[..., None, :, :], shape)
  return jnp.take_along_axis(by_row_BHLR, row_1HLM, axis=-1)


def pick_distances(by_distance_BHLR: jax.Array, memory: int) -> jax.Array:
  """Returns the entry of each pair, [B, H, L, M], by its distance.

  Each query begins one entry before the query above it, so that a row of one
  entry less has them in place: no index is read, forwards or backwards (the
  shift of Dai et al. 2019, appendix B).

  Args:
    by_distance_BHLR: Entry r of query i is of key i + r - (L - 1), float32
      [B, H, L, L + M]; the last is not read. B may be left out.
    memory: M.
  """
  *batch, length, distances = by_distance_BHLR.shape
  flat_BHX = by_distance_BHLR.reshape(*batch, length * distances)
  flat_BHX = flat_BHX[..., length - 1 : length * distances - 1]
  return flat_BHX.reshape(*batch, length, distances - 1)[..., :memory]


@gin.register
class DisentangledAttention(nn.Module):
  """Attention whose scores are sums of products of contents and distances.

  The score of query i and key j is q_i . k_j + q_i . P_k(r) + k_j . P_q(r),
  divided by sqrt(head_dim * terms), where r is the vector of the distance i - j
  in the stack's `RelativeTable`. The second term is content to position, the
  third position to content. Products are taken with the vector of every
  distance, [B, H, L, L + M], or of every row of the table if positions are not
  counted, and each pair picks its own.

  Scores of many rows are computed a few rows at a time, and again in the
  backward pass: the scores of a batch and the products above are never in
  memory together, nor kept for it.

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
    scores_bytes: The bytes of scores, or of products with vectors of distances,
      that a device computes at a time, at least one row's; None for 8 MiB on
      CPUs and 256 MiB elsewhere.
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
  scores_bytes: Speed[int | None] = None

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
    memory_BMD = x_BLD if memory_BMD is None else memory_BMD
    query_BLHK = self._project(self.query, x_BLD)
    key_BMHK = self._project(self.key, memory_BMD)
    value_BMHK = self._project(self.value, memory_BMD)
    terms = 1 + self.content_to_position + self.position_to_content
    scale = (self.head_dim * terms) ** -0.5
    if score_scale is not None:
      scale *= score_scale
    query_BLHK *= jnp.asarray(scale, query_BLHK.dtype)
    arrays = {
      "query_BLHK": query_BLHK,
      "key_BMGK": key_BMHK,
      "value_BMGK": value_BMHK,
      "mask_B1LM": masks.whole(mask_B1LM),
      "bias_1HLM": whole_bias(bias_1HLM),
    }
    if terms > 1:
      table_1RD = self._table(relative, x_BLD.dtype, deterministic)
      of_keys, of_queries = self._rows_read(relative)
      if of_keys is None:
        arrays["row_1LM"] = relative.row_1LM
    if self.content_to_position:
      own = self.key if self.position_key is None else self.position_key
      position_1RHK = self._project(own, table_1RD)
      arrays["key_position_1RHK"] = _taken(position_1RHK, of_keys)
    if self.position_to_content:
      own = self.query if self.position_query is None else self.position_query
      position_1RHK = self._project(own, table_1RD)
      position_1RHK *= jnp.asarray(scale, position_1RHK.dtype)
      arrays["query_position_1RHK"] = _taken(position_1RHK, of_queries)
    context_BLHK = self._attended(
      {name: x for name, x in arrays.items() if x is not None}, deterministic
    )
    context_BLHK = axes.constrain(
      context_BLHK, "batch", "length", "heads", "kv"
    )
    context_BLX = context_BLHK.reshape(*x_BLD.shape[:-1], -1)
    return self.out(context_BLX, x_BLD.shape[-1])

  def _attended(self, arrays, deterministic) -> jax.Array:
    """Returns the context [B, L, H, K] of all rows, or of a few at a time."""
    batch, length, heads, _ = arrays["query_BLHK"].shape
    shape = (batch, heads, length, arrays["key_BMGK"].shape[1])
    dtype = arrays["query_BLHK"].dtype
    draw = None
    if not deterministic and self.dropout.rate > 0.0:
      draw = self.dropout.described(shape, dtype)
    on_cpu = tracing.platform() == "cpu"
    most = self.scores_bytes or (ROWWISE_BYTES if on_cpu else 2**28)
    mesh = jax.sharding.get_abstract_mesh()
    pairs = _most_pairs(arrays)
    bytes_ = 4 * batch * heads * pairs // max(1, mesh.size)
    is_open = not isinstance(batch, int)  # In a program that is exported.
    if is_open or bytes_ <= most or batch <= axes.partitions("batch"):
      if draw is not None:
        arrays["keep_BH1M"] = draw.array()
      return _attend(**arrays)
    tracing.record_choice(
      f"disentangled attention of {length} to {shape[-1]} tokens: a few rows "
      f"at a time, {bytes_ / 2**20:,.0f} MB of products on a device"
    )
    if draw is not None and draw.shared:
      arrays["keep_BH1M"], draw = draw.array(), None
    if draw is not None:
      arrays["keys_B"] = draw.keys_B()
      if axes.partitions("heads") > 1:
        arrays["heads_1H"] = jnp.arange(heads)[None]
    logical = chunked.logical_axes() | _LOGICAL_AXES
    return chunked.by_rows(
      functools.partial(_attend, draw=draw),
      {name: (x, logical[name]) for name, x in arrays.items()},
      pairs=pairs,
      group_bytes=most,
    )

  def _rows_read(self, relative):
    """The rows for each distance that queries meet, and that keys meet.

    Returns:
      int32 [L + M] twice; None twice where positions are not counted.
    """
    if relative.row_1R is None:
      return None, None
    row_R = relative.row_1R[0]
    return jnp.pad(row_R, (0, 1)), jnp.pad(row_R[::-1], (0, 1))

  def _table(self, relative, dtype, deterministic) -> jax.Array:
    """The vectors of the distances after dropout, [1, R, D]."""
    if relative is None:
      raise UserError(
        "DisentangledAttention has terms of positions, but the stack has no "
        "table of distances; bind Transformer.relative_embedder = "
        "@RelativeEmbeddings(), or content_to_position and "
        "position_to_content = False"
      )
    return self.position_dropout(
      relative.table_RD.astype(dtype)[None], deterministic=deterministic
    )

  def _project(self, linear: nn.Module, y: jax.Array) -> jax.Array:
    """Returns y projected and split into heads, [B or 1, L, M or R, H, K]."""
    y = linear(y, self.num_heads * self.head_dim)
    y_BLHK = y.reshape(*y.shape[:-1], self.num_heads, self.head_dim)
    return axes.constrain(y_BLHK, "batch", "length", "heads", "kv")


def _taken(position_1RHK, row_R) -> jax.Array:
  """The vectors of rows, [1, L + M, H, K]; of all in order if None."""
  if row_R is None:
    return position_1RHK
  return jnp.take(position_1RHK, row_R, axis=1)


def _most_pairs(arrays) -> int:
  """The numbers of a head of a row in the largest array of scores or products.

  Queries meet the vectors of distances, and keys do.
  """
  length, memory = (arrays[n].shape[1] for n in ("query_BLHK", "key_BMGK"))
  met = [length * memory]
  for name, number in (
    ("key_position_1RHK", length),
    ("query_position_1RHK", memory),
  ):
    if name in arrays:
      met.append(number * arrays[name].shape[1])
  return max(met)


def _attend(
  query_BLHK: jax.Array,
  key_BMGK: jax.Array,
  value_BMGK: jax.Array,
  mask_B1LM: jax.Array | None = None,
  bias_1HLM: jax.Array | None = None,
  key_position_1RHK: jax.Array | None = None,
  query_position_1RHK: jax.Array | None = None,
  row_1LM: jax.Array | None = None,
  keep_BH1M: jax.Array | None = None,
  keys_B: jax.Array | None = None,
  heads_1H: jax.Array | None = None,
  draw: Draw | None = None,
) -> jax.Array:
  """Returns the context [B, L, H, K]; of a single row without B, as all given.

  Args:
    query_BLHK: The queries, scaled.
    key_BMGK: The keys, of as many heads.
    value_BMGK: The values.
    mask_B1LM: True where a query may attend.
    bias_1HLM: added to the scores.
    key_position_1RHK: The vectors of distances that queries meet, or None.
    query_position_1RHK: Those that keys meet, scaled, or None.
    row_1LM: The row of each pair; None for vectors of every distance in order.
    keep_BH1M: The factors that dropout drew, or None.
    keys_B: The keys by which they are drawn here, or None.
    heads_1H: The heads that are here; None for all.
    draw: The draw of the keys.
  """
  length, memory = query_BLHK.shape[-3], key_BMGK.shape[-3]
  if key_position_1RHK is not None:
    by_row_BHLR = _products(query_BLHK, key_position_1RHK)
    if row_1LM is None:
      added_BHLM = pick_distances(by_row_BHLR, memory)
    else:
      added_BHLM = pick_rows(by_row_BHLR, row_1LM)
    bias_1HLM = added_BHLM if bias_1HLM is None else bias_1HLM + added_BHLM
  if query_position_1RHK is not None:
    by_row_BHMR = _products(key_BMGK, query_position_1RHK)
    if row_1LM is None:
      added_BHML = pick_distances(by_row_BHMR, length)
    else:
      added_BHML = pick_rows(by_row_BHMR, row_1LM.swapaxes(-1, -2))
    added_BHLM = added_BHML.swapaxes(-1, -2)
    bias_1HLM = added_BHLM if bias_1HLM is None else bias_1HLM + added_BHLM
  if keys_B is not None:
    of_row = draw.of_row if keys_B.ndim == 0 else jax.vmap(draw.of_row)
    keep_BH1M = of_row(keys_B)
    if heads_1H is not None:
      keep_BH1M = jnp.take(keep_BH1M, heads_1H.reshape(-1), axis=-3)
  weights_BHLM = dot_product.attention_weights(
    query_BLHK, key_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  )
  return dot_product.weighted_values(weights_BHLM, value_BMGK)


def _products(x_BLHK: jax.Array, position_1RHK: jax.Array) -> jax.Array:
  """Returns the products with every vector, float32 [B, H, L, R]."""
  return jnp.einsum(
    "...lhk,rhk->...hlr",
    x_BLHK,
    position_1RHK.reshape(position_1RHK.shape[-3:]),
    preferred_element_type=jnp.float32,
  )
