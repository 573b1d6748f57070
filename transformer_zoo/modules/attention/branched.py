"""Branched attention (the Weighted Transformer: Ahmed et al. 2017)."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.parts import part


@gin.register
class BranchedAttention(Attention):
  """Attention whose heads each go through a feed-forward network.

  Each head is projected to the width of the layer and multiplied by its number
  kappa; the network, one for all heads, reads each apart; and the sum of its
  outputs times their numbers alpha is what comes out. The layer has no other
  network. In the paper the numbers are positive and their sum is 1. Mesh
  TensorFlow declares the same and never enforces it, since its optimizers do
  not apply constraints of variables; so it is here.

  Attributes:
    mlp: The feed-forward network.
    branch_init: The distribution of the projections of the heads.
    weight_init: The distribution of kappa and alpha.
  """

  mlp: nn.Module = part(Mlp, d_ff=2048)
  branch_init: Callable = initializers.fan_in_normal
  weight_init: Callable = nn.initializers.uniform(1.0)

  def _out(self, x_BLD, context_BLHK, deterministic):
    batch, length, heads, head_dim = context_BLHK.shape
    width = x_BLD.shape[-1]

    def init(key, shape, dtype):
      return self.branch_init(key, (heads * head_dim, width), dtype).reshape(
        shape
      )

    kernel_HKD = self.param(
      "branches",
      axes.partitioned(init, "heads", "kv", "embed"),
      (heads, head_dim, width),
      jnp.float32,
    )
    branch_BLHD = jnp.einsum(
      "blhk,hkd->blhd",
      self._gated(x_BLD, context_BLHK),
      kernel_HKD.astype(x_BLD.dtype),
    )
    branch_BLHD = branch_BLHD * self._numbers("kappa", branch_BLHD)
    hidden_BXD = self.mlp(
      branch_BLHD.reshape(batch, length * heads, width),
      deterministic=deterministic,
    )
    hidden_BLHD = hidden_BXD.reshape(batch, length, heads, width)
    return jnp.sum(hidden_BLHD * self._numbers("alpha", hidden_BLHD), axis=2)

  def _numbers(self, name: str, like: jax.Array) -> jax.Array:
    """A number of each head, [1, 1, H, 1], in the dtype of an array."""
    numbers_H = self.param(
      name,
      axes.partitioned(self.weight_init, "heads"),
      (self.num_heads,),
      jnp.float32,
    )
    return numbers_H.astype(like.dtype)[None, None, :, None]
