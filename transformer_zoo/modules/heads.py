"""From the output of a stack to logits over the vocabulary."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part


@gin.register
class TiedLogits(nn.Module):
  """Logits from the embedding table (Press and Wolf 2017).

  Attributes:
    scale_by_depth: multiply the output by d_model^-0.5 first, as T5 v1.0 does
      because its embeddings have unit variance.
    use_bias: whether to add a bias for each token, initially 0 (Marian).
  """

  scale_by_depth: bool = True
  use_bias: bool = False

  @nn.compact
  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 logits [B, L, V]."""
    if self.scale_by_depth:
      x_BLD = x_BLD * jnp.asarray(x_BLD.shape[-1] ** -0.5, x_BLD.dtype)
    logits_BLV = embedder.attend(x_BLD).astype(jnp.float32)
    if self.use_bias:
      bias_V = self.param(
        "logits_bias",
        axes.partitioned(nn.initializers.zeros, "vocab"),
        (embedder.num_embeddings,),
        jnp.float32,
      )
      logits_BLV += bias_V.reshape(1, 1, -1)
    return axes.constrain(logits_BLV, "batch", "length", "vocab")


@gin.register
class LinearLogits(nn.Module):
  """Logits from a projection of their own, in float32 (T5.1.1).

  Attributes:
    logits_dense: the projection.
    scale_by_depth: multiply the output by d_model^-0.5 first; checkpoints of
      `transformers` exist that do so beside a matrix of their own.
  """

  logits_dense: nn.Module = part(Linear, kernel_axes=("embed", "vocab"))
  scale_by_depth: bool = False

  @nn.compact
  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 logits [B, L, V]."""
    x_BLD = x_BLD.astype(jnp.float32)
    if self.scale_by_depth:
      x_BLD = x_BLD * x_BLD.shape[-1] ** -0.5
    logits_BLV = self.logits_dense(x_BLD, embedder.num_embeddings)
    return axes.constrain(logits_BLV, "batch", "length", "vocab")
