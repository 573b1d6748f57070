"""Multi-head attention (Vaswani et al. 2017, section 3.2)."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.modules import initializers
from transformer_zoo.modules import kv_cache
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part

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


def attention_weights(
  query_BLHK: jax.Array,
  key_BMHK: jax.Array,
  mask_B1LM: jax.Array | None,
  bias_1HLM: jax.Array | None,
) -> jax.Array:
  """Softmax over keys of the scores, [B, H, L, M], computed in float32."""
  scores_BHLM = jnp.einsum(
    "blhk,bmhk->bhlm",
    query_BLHK,
    key_BMHK,
    preferred_element_type=jnp.float32,
  )
  if bias_1HLM is not None:
    scores_BHLM = scores_BHLM + bias_1HLM
  return masked_softmax(scores_BHLM, mask_B1LM).astype(query_BLHK.dtype)


@gin.register
class Attention(nn.Module):
  """Multi-head attention from x to a memory (to x itself by default).

  Scores are not scaled: T5 folds 1/sqrt(head_dim) into the distribution of
  the query kernel.

  Attributes:
    num_heads: H.
    head_dim: K; H * K need not be d_model.
    query, key, value, out: the projections; parameters are theirs.
    dropout: applied to the attention weights.
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
  dropout: nn.Module = part(Dropout)

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    memory_BMD: jax.Array | None = None,
    *,
    mask_B1LM: jax.Array | None = None,
    bias_1HLM: jax.Array | None = None,
    decoding: kv_cache.Decoding | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: where the queries come from.
      memory_BMD: where keys and values come from; x if None.
      mask_B1LM: True where a query may attend.
      bias_1HLM: added to the scores.
      decoding: if given, keys and values are kept in the `cache` collection:
        those of x are appended, those of a memory are computed once.
      deterministic: no dropout.
    """

    def split_heads(y):
      y_BLHK = y.reshape(*y.shape[:-1], self.num_heads, self.head_dim)
      return axes.constrain(y_BLHK, "batch", "length", "heads", "kv")

    width = self.num_heads * self.head_dim
    query_BLHK = split_heads(self.query(x_BLD, width))

    def project():
      source = x_BLD if memory_BMD is None else memory_BMD
      return (
        split_heads(self.key(source, width)),
        split_heads(self.value(source, width)),
      )

    if decoding is None:
      key_BMHK, value_BMHK = project()
    elif memory_BMD is None:
      key_BMHK, value_BMHK = kv_cache.append(self, project(), decoding)
    else:
      key_BMHK, value_BMHK = kv_cache.compute_once(self, project)

    weights_BHLM = attention_weights(query_BLHK, key_BMHK, mask_B1LM, bias_1HLM)
    weights_BHLM = self.dropout(weights_BHLM, deterministic=deterministic)
    context_BLHK = jnp.einsum("bhlm,bmhk->blhk", weights_BHLM, value_BMHK)
    context_BLX = context_BLHK.reshape(*x_BLD.shape[:-1], width)
    return self.out(context_BLX, x_BLD.shape[-1])
