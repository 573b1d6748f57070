"""Multi-head attention (Vaswani et al. 2017, section 3.2)."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules import kv_cache
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Positions

# Scores of masked pairs are replaced by it, so that a query without any key
# still has a finite softmax (T5X adds the same number).
MASKED_SCORE = -1e10


@jax.custom_vjp
def masked_softmax(
  scores_BHLM: jax.Array, mask_B1LM: jax.Array | None
) -> jax.Array:
  """Softmax over the keys that the mask allows; uniform where it allows none.

  The gradient is written from the weights alone, w * (g - sum(w * g)). JAX's
  own keeps the exponentials and their sums too and reads them again.
  """
  if mask_B1LM is not None:
    scores_BHLM = jnp.where(mask_B1LM, scores_BHLM, MASKED_SCORE)
  return jax.nn.softmax(scores_BHLM, axis=-1)


def _softmax_forward(scores_BHLM, mask_B1LM):
  weights_BHLM = masked_softmax(scores_BHLM, mask_B1LM)
  return weights_BHLM, (weights_BHLM, mask_B1LM)


def _softmax_backward(residuals, gradient_BHLM):
  weights_BHLM, mask_B1LM = residuals
  weighted_BHLM = weights_BHLM * gradient_BHLM
  total_BHL1 = jnp.sum(weighted_BHLM, axis=-1, keepdims=True)
  scores_gradient_BHLM = weighted_BHLM - weights_BHLM * total_BHL1
  if mask_B1LM is not None:
    scores_gradient_BHLM = jnp.where(mask_B1LM, scores_gradient_BHLM, 0.0)
  return scores_gradient_BHLM, None


masked_softmax.defvjp(_softmax_forward, _softmax_backward)


def attention_scores(query_BLHK: jax.Array, key_BMGK: jax.Array) -> jax.Array:
  """Returns the products of queries and keys, float32 [B, H, L, M].

  Of H query heads, H / G neighbours share a key head (grouped queries, Ainslie
  et al. 2023).
  """
  batch, length, heads, head_dim = query_BLHK.shape
  groups = key_BMGK.shape[2]
  if groups == heads:
    return jnp.einsum(
      "blhk,bmhk->bhlm",
      query_BLHK,
      key_BMGK,
      preferred_element_type=jnp.float32,
    )
  query_BLGRK = query_BLHK.reshape(batch, length, groups, -1, head_dim)
  scores_BGRLM = jnp.einsum(
    "blgrk,bmgk->bgrlm",
    query_BLGRK,
    key_BMGK,
    preferred_element_type=jnp.float32,
  )
  return scores_BGRLM.reshape(batch, heads, length, -1)


def weighted_values(
  weights_BHLM: jax.Array, value_BMGK: jax.Array
) -> jax.Array:
  """Returns the sums of the values under the weights, [B, L, H, K]."""
  batch, heads, length, memory = weights_BHLM.shape
  groups = value_BMGK.shape[2]
  if groups == heads:
    return jnp.einsum("bhlm,bmhk->blhk", weights_BHLM, value_BMGK)
  weights_BGRLM = weights_BHLM.reshape(batch, groups, -1, length, memory)
  context_BLGRK = jnp.einsum("bgrlm,bmgk->blgrk", weights_BGRLM, value_BMGK)
  return context_BLGRK.reshape(batch, length, heads, -1)


@gin.register
class Attention(nn.Module):
  """Multi-head attention from x to a memory (to x itself by default).

  Attributes:
    num_heads: H.
    head_dim: K; H * K need not be d_model.
    num_kv_heads: G, heads of keys and values, a divisor of H; H if None.
    scale_scores: multiply scores by 1/sqrt(head_dim). T5 folds it into the
      distribution of the query kernel instead.
    query, key, value, out: the projections; parameters are theirs.
    dropout: applied to the attention weights.
    rotary: turns queries and keys by their positions, or None.
    position_bias: a bias of this layer's own, or None.
    relative_vectors: vectors by distance for keys, or keys and values, or None.
      All three are of attention to x itself: a memory has no distances.
  """

  num_heads: int
  head_dim: int
  num_kv_heads: int | None = None
  scale_scores: bool = False
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
  dropout: nn.Module = part(Dropout)
  rotary: nn.Module | None = None
  position_bias: nn.Module | None = None
  relative_vectors: nn.Module | None = None

  def __post_init__(self):
    if self.num_kv_heads is not None and (
      self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads
    ):
      raise UserError(
        f"{self.num_heads} heads cannot share {self.num_kv_heads} heads of "
        "keys and values evenly; num_kv_heads must divide num_heads"
      )
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    memory_BMD: jax.Array | None = None,
    *,
    mask_B1LM: jax.Array | None = None,
    bias_1HLM: jax.Array | None = None,
    positions: Positions | None = None,
    decoding: kv_cache.Decoding | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: where the queries come from.
      memory_BMD: where keys and values come from; x if None.
      mask_B1LM: True where a query may attend.
      bias_1HLM: added to the scores.
      positions: of queries and keys, for attention to x itself; 0 to L - 1 by
        default.
      decoding: if given, keys and values are kept in the `cache` collection:
        those of x are appended, those of a memory are computed once.
      deterministic: no dropout.
    """
    to_itself = memory_BMD is None
    if positions is None:
      positions = Positions.of_length(x_BLD.shape[1])
    query_BLHK = self._project(self.query, x_BLD, self.num_heads)
    if self.scale_scores:
      query_BLHK = query_BLHK * self.head_dim**-0.5
    if self.rotary is not None and to_itself:
      query_BLHK = self.rotary(query_BLHK, positions.query_1L)

    def project():
      source = x_BLD if to_itself else memory_BMD
      num_heads = self.num_kv_heads or self.num_heads
      key_BMGK = self._project(self.key, source, num_heads)
      if self.rotary is not None and to_itself:
        key_BMGK = self.rotary(key_BMGK, positions.query_1L)
      return key_BMGK, self._project(self.value, source, num_heads)

    if decoding is None:
      key_BMGK, value_BMGK = project()
    elif to_itself:
      key_BMGK, value_BMGK = kv_cache.append(self, project(), decoding)
    else:
      key_BMGK, value_BMGK = kv_cache.compute_once(self, project)

    scores_BHLM = attention_scores(query_BLHK, key_BMGK)
    if bias_1HLM is not None:
      scores_BHLM += bias_1HLM
    if self.position_bias is not None and to_itself:
      scores_BHLM += self.position_bias.copy(name="relpos_bias")(positions)
    if self.relative_vectors is not None and to_itself:
      scores_BHLM += self.relative_vectors.scores(query_BLHK, positions)
    weights_BHLM = masked_softmax(scores_BHLM, mask_B1LM)
    weights_BHLM = self.dropout(
      weights_BHLM.astype(x_BLD.dtype), deterministic=deterministic
    )
    context_BLHK = weighted_values(weights_BHLM, value_BMGK)
    if self.relative_vectors is not None and to_itself:
      context_BLHK += self.relative_vectors.values(weights_BHLM, positions)
    context_BLX = context_BLHK.reshape(*x_BLD.shape[:-1], -1)
    return self.out(context_BLX, x_BLD.shape[-1])

  def _project(self, linear: nn.Module, y: jax.Array, num_heads: int):
    """Returns y projected and split into heads, [B, L or M, heads, K]."""
    y = linear(y, num_heads * self.head_dim)
    y_BLHK = y.reshape(*y.shape[:-1], num_heads, self.head_dim)
    return axes.constrain(y_BLHK, "batch", "length", "heads", "kv")
