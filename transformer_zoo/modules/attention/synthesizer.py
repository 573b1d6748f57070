"""Synthesizers: attention whose scores are not of pairs of tokens alone.

Tay et al. 2021, in the form of Mesh TensorFlow. Scores go by the places of
tokens in their own text, so texts of a packed row have what they have alone.
"""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import dot_product
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Bias
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import whole_bias

DOT_PRODUCTS = ("none", "plus", "alpha")


@gin.register
class RandomScores(nn.Module):
  """A table of scores of each head by the places of query and key.

  Attributes:
    max_length: The number of places.
    table_init: The distribution of the table.
  """

  max_length: int = 512
  table_init: Callable = initializers.fan_average_uniform
  reads_queries = False

  @nn.compact
  def __call__(
    self,
    query_BLHK: jax.Array | None,
    num_heads: int,
    places: tuple[jax.Array, jax.Array],
  ) -> jax.Array:
    """Returns scores [1 or B, H, L, M].

    Args:
      query_BLHK: not read.
      num_heads: H.
      places: The places of queries [1 or B, L] and keys [1 or B, M].
    """
    del query_BLHK
    table_LHM = self.param(
      "table",
      axes.partitioned(self.table_init, None, "heads", None),
      (self.max_length, num_heads, self.max_length),
      jnp.float32,
    )
    return _at_keys(jnp.moveaxis(table_LHM[places[0]], 2, 1), places)


@gin.register
class FactorizedScores(nn.Module):
  """Sums of products of two tables by the place of the key.

  The paper's tables are of the places of queries and of keys. Mesh TensorFlow
  gives both the places of keys, so that all queries have the same scores, and
  this is how the published figures were made.

  Attributes:
    features: The number of products in a sum.
    max_length: The number of places.
    table_init: The distribution of the tables.
  """

  features: int = 16
  max_length: int = 512
  table_init: Callable = initializers.fan_average_uniform
  reads_queries = False

  @nn.compact
  def __call__(
    self,
    query_BLHK: jax.Array | None,
    num_heads: int,
    places: tuple[jax.Array, jax.Array],
  ) -> jax.Array:
    """Returns scores [1 or B, H, 1, M]; arguments as of `RandomScores`."""
    del query_BLHK
    first_XHM, second_XHM = (
      self.param(
        name,
        axes.partitioned(self.table_init, None, "heads", None),
        (self.features, num_heads, self.max_length),
        jnp.float32,
      )
      for name in ("first", "second")
    )
    scores_HM = jnp.sum(first_XHM * second_XHM, axis=0)
    return jnp.moveaxis(scores_HM[:, places[1]], 0, 1)[:, :, None]


@gin.register
class DenseScores(nn.Module):
  """Scores by the place of the key, computed from the query: relu(q) @ kernel.

  Attributes:
    max_length: The number of places.
    kernel_init: The distribution of the kernel, which all heads share.
  """

  max_length: int = 512
  kernel_init: Callable = initializers.fan_in_normal
  reads_queries = True

  @nn.compact
  def __call__(
    self,
    query_BLHK: jax.Array,
    num_heads: int,
    places: tuple[jax.Array, jax.Array],
  ) -> jax.Array:
    """Returns scores [B, H, L, M]; arguments as of `RandomScores`."""
    del num_heads
    kernel_KM = self.param(
      "kernel",
      axes.partitioned(self.kernel_init, "kv", None),
      (query_BLHK.shape[-1], self.max_length),
      jnp.float32,
    )
    scores_BHLM = jnp.einsum(
      "blhk,km->bhlm",
      nn.relu(query_BLHK),
      kernel_KM.astype(query_BLHK.dtype),
      preferred_element_type=jnp.float32,
    )
    return _at_keys(scores_BHLM, places)


def _at_keys(
  scores_BHLX: jax.Array, places: tuple[jax.Array, jax.Array]
) -> jax.Array:
  """Returns scores [B, H, L, M] of scores by the place X of the key.

  In a row of whole texts a query's scores are one piece, which begins where
  its text does; gradients are summed piece by piece then.
  """
  query_BL, key_BM = places
  length, memory = query_BL.shape[1], key_BM.shape[1]
  if length != memory:
    return jnp.take_along_axis(scores_BHLX, key_BM[:, None, None], axis=3)

  def piece(scores_HX, start):
    return jax.lax.dynamic_slice_in_dim(scores_HX, length - start, memory, 1)

  before_BHLX = jnp.pad(scores_BHLX, ((0, 0), (0, 0), (0, 0), (length, 0)))
  start_BL = jnp.broadcast_to(
    jnp.arange(length)[None] - query_BL, (len(before_BHLX), length)
  )
  of_row = jax.vmap(piece, in_axes=(1, 0), out_axes=1)
  return jax.vmap(of_row)(before_BHLX, start_BL)


@gin.register
class Synthesizer(Attention):
  """Attention of x to itself by synthesized scores.

  Without products of queries and keys there are no keys, and queries where the
  scores are computed from them.

  Attributes:
    scores: The scores: `RandomScores`, `FactorizedScores` or `DenseScores`.
    dot_products: "none": the scores alone; "plus": they are added to the
      products of queries and keys; "alpha": a weighted mean of both, whose
      weight is the sigmoid of a parameter, at first 1/2.
  """

  scores: nn.Module = part(RandomScores)
  dot_products: str = "none"

  def __post_init__(self):
    if self.dot_products not in DOT_PRODUCTS:
      raise UserError(
        f"unknown Synthesizer.dot_products {self.dot_products!r}; allowed: "
        f"{', '.join(DOT_PRODUCTS)}"
      )
    for name in ("rotary", "position_bias", "relative_vectors", "context"):
      if getattr(self, name) is not None:
        raise UserError(
          f"Synthesizer.{name} has no meaning, its scores go by place; leave "
          "it None"
        )
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None = None,
    bias_1HLM: jax.Array | Bias | None = None,
    positions: Positions | None = None,
    score_scale: jax.Array | None = None,
    decoding: cache.Decoding | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns [B, L, D]; arguments as of `Attention`.

    Raises:
      UserError: a row or an output is longer than the scores reach.
    """
    del positions
    self._check_length(x_BLD.shape[1], decoding)
    multiplies = self.dot_products != "none"
    of_itself = {"mask_B1LM": mask_B1LM, "decoding": decoding}
    groups = self.num_kv_heads or self.num_heads
    new = (self._heads("value", x_BLD, groups, of_itself),)
    if multiplies:
      new = (self._heads("key", x_BLD, groups, of_itself), *new)
    kept = new if decoding is None else cache.append(self, new, decoding)
    query_BLHK = None
    if multiplies or self.scores.reads_queries:
      query_BLHK = self._heads("query", x_BLD, self.num_heads, of_itself)
      if self.scale_scores:
        query_BLHK = query_BLHK * self._scale
      if score_scale is not None:
        query_BLHK = query_BLHK * score_scale.astype(query_BLHK.dtype)
    if decoding is not None and decoding.position is not None:
      places = decoding.places
    else:
      places = (masks.places_in_texts(mask_B1LM, x_BLD.shape[:2]),) * 2
    scores_BHLM = self.scores(query_BLHK, self.num_heads, places)
    if multiplies:
      scores_BHLM = self._joined(
        dot_product.attention_scores(query_BLHK, kept[0]), scores_BHLM
      )
    if bias_1HLM is not None:
      scores_BHLM = scores_BHLM + whole_bias(bias_1HLM)
    batch, length, memory = *x_BLD.shape[:2], kept[-1].shape[1]
    scores_BHLM = jnp.broadcast_to(
      scores_BHLM, (batch, self.num_heads, length, memory)
    )
    weights_BHLM = dot_product.masked_softmax(
      scores_BHLM, masks.whole(mask_B1LM)
    )
    tracing.record_weights(weights_BHLM)
    weights_BHLM = weights_BHLM.astype(x_BLD.dtype)
    keep_BH1M = self._draw_dropout(
      (batch, length, memory), x_BLD.dtype, deterministic
    )
    if keep_BH1M is not None:
      weights_BHLM = weights_BHLM * keep_BH1M.array()
    context_BLHK = dot_product.weighted_values(weights_BHLM, kept[-1])
    return self._out(x_BLD, context_BLHK, deterministic)

  def _joined(self, products_BHLM, scores_BHLM):
    """Returns the scores of both kinds together."""
    if self.dot_products == "plus":
      return products_BHLM + scores_BHLM
    alpha_1 = self.param(
      "alpha", axes.partitioned(nn.initializers.zeros, None), (1,), jnp.float32
    )
    weight = nn.sigmoid(alpha_1[0])
    return (1 - weight) * products_BHLM + weight * scores_BHLM

  def _check_length(self, length, decoding):
    if decoding is not None:
      length = decoding.prompt_slots + decoding.length
    if length > self.scores.max_length:
      raise UserError(
        f"{type(self.scores).__name__}.max_length is {self.scores.max_length}, "
        f"but a row has {length} tokens; shorten the rows or raise it"
      )
