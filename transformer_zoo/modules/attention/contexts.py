"""Contexts that are more than one softmax a head: parts of `Attention.context`.

A part makes the context [B, L, H, K] of queries, keys and values; mask, bias
and dropout are those of `dot_product_attention`, as arrays.
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
from transformer_zoo.modules import scalars
from transformer_zoo.modules.attention import dot_product
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part


@gin.register
class TalkingHeads(nn.Module):
  """Scores and weights mixed between heads (Shazeer et al. 2020).

  A matrix goes from the products of queries and keys to the scores of all
  heads, another from the weights after the softmax to those of the values.
  Bias and mask are added between them. There are as many heads everywhere.

  Attributes:
    kernel_init: The distribution of both matrices.
  """

  kernel_init: Callable = initializers.fan_in_normal

  @nn.compact
  def __call__(
    self,
    query_BLHK: jax.Array,
    key_BMGK: jax.Array,
    value_BMGK: jax.Array,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    keep_BH1M: jax.Array | None,
  ) -> jax.Array:
    """Returns [B, L, H, K]."""
    scores_BHLM = dot_product.attention_scores(query_BLHK, key_BMGK)
    scores_BHLM = self._mixed("scores", scores_BHLM)
    if bias_1HLM is not None:
      scores_BHLM += bias_1HLM
    weights_BHLM = dot_product.masked_softmax(scores_BHLM, mask_B1LM)
    weights_BHLM = self._mixed("weights", weights_BHLM)
    tracing.record_weights(weights_BHLM)
    weights_BHLM = weights_BHLM.astype(query_BLHK.dtype)
    if keep_BH1M is not None:
      weights_BHLM = weights_BHLM * keep_BH1M
    return dot_product.weighted_values(weights_BHLM, value_BMGK)

  def _mixed(self, name: str, x_BHLM: jax.Array) -> jax.Array:
    heads = x_BHLM.shape[1]
    kernel_HX = self.param(
      f"{name}_kernel",
      axes.partitioned(self.kernel_init, None, "heads"),
      (heads, heads),
      jnp.float32,
    )
    return jnp.einsum("bhlm,hx->bxlm", x_BHLM, kernel_HX)


@gin.register
class SoftCappedScores(nn.Module):
  """Scores that stay between -`cap` and `cap` (Gemma 2: Riviere et al. 2024).

  A score s is cap * tanh(s / cap). Bias and mask are added behind it.

  Attributes:
    cap: The bound.
  """

  cap: float = 50.0

  def __post_init__(self):
    scalars.check_cap(self)
    super().__post_init__()

  def __call__(
    self,
    query_BLHK: jax.Array,
    key_BMGK: jax.Array,
    value_BMGK: jax.Array,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    keep_BH1M: jax.Array | None,
  ) -> jax.Array:
    """Returns [B, L, H, K]."""
    scores_BHLM = dot_product.attention_scores(query_BLHK, key_BMGK)
    weights_BHLM = dot_product.weights_of_scores(
      scalars.soft_capped(scores_BHLM, self.cap),
      mask_B1LM,
      bias_1HLM,
      keep_BH1M,
      query_BLHK.dtype,
    )
    return dot_product.weighted_values(weights_BHLM, value_BMGK)


@gin.register
class DifferentialContext(nn.Module):
  """The difference of two softmaxes (Differential Transformer: Ye et al. 2024).

  Two neighbouring heads of queries and keys are one: the second's weights times
  a number lambda are taken from the first's, and the difference weighs the
  values of both, side by side. What comes out is normalized over their
  features and multiplied by 1 - `initial`. lambda is exp(q_1 . k_1) -
  exp(q_2 . k_2) + `initial`, of vectors of each layer. `initial` grows with
  depth from 0.2 to 0.8 in the paper, whose table 6 finds 0.8 in every layer as
  good.

  Attributes:
    initial: The constant of lambda.
    norm: The normalization.
    vector_init: The distribution of the four vectors.
  """

  initial: float = 0.8
  norm: nn.Module = part(RMSNorm, epsilon=1e-5, axis="kv")
  vector_init: Callable = initializers.normal(0.1)

  @nn.compact
  def __call__(
    self,
    query_BLHK: jax.Array,
    key_BMGK: jax.Array,
    value_BMGK: jax.Array,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    keep_BH1M: jax.Array | None,
  ) -> jax.Array:
    """Returns [B, L, H, K]."""
    batch, length, heads, head_dim = query_BLHK.shape
    if heads % 2:
      raise UserError(
        f"DifferentialContext makes one head of two, but Attention.num_heads "
        f"is {heads}; choose an even number"
      )
    weights_BHLM = dot_product.attention_weights(
      query_BLHK, key_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
    )
    first_BXLM, second_BXLM = weights_BHLM[:, ::2], weights_BHLM[:, 1::2]
    factor = self._lambda(head_dim).astype(query_BLHK.dtype)
    # Two heads share the values of both.
    value_BMHK = jnp.repeat(value_BMGK, heads // value_BMGK.shape[2], axis=2)
    memory = value_BMHK.shape[1]
    value_BMXK = value_BMHK.reshape(batch, memory, heads // 2, 2 * head_dim)
    context_BLXK = dot_product.weighted_values(
      first_BXLM - factor * second_BXLM, value_BMXK
    )
    context_BLXK = self.norm(context_BLXK) * (1 - self.initial)
    return context_BLXK.reshape(batch, length, heads, head_dim)

  def _lambda(self, head_dim: int) -> jax.Array:
    """The factor of the second weights, float32."""
    products = []
    for number in (1, 2):
      query_K, key_K = (
        self.param(
          f"lambda_{name}_{number}",
          axes.partitioned(self.vector_init, None),
          (head_dim,),
          jnp.float32,
        )
        for name in ("query", "key")
      )
      products.append(jnp.exp(jnp.sum(query_K * key_K)))
    return products[0] - products[1] + self.initial
