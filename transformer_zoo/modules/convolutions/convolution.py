"""A convolution beside the first layer of a stack (DeBERTa v2)."""

from collections.abc import Callable, Mapping

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import feed_forward
from transformer_zoo.modules import initializers
from transformer_zoo.modules import neighbours
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.parts import part


@gin.register
class Convolution(nn.Module):
  """A convolution of the embeddings, joined to what the first layer puts out.

  norm(y + activation(dropout(convolution(x)))) of the embeddings x and the
  output y of the first layer (`ConvLayer` of microsoft/DeBERTa 4d7fe0b, of its
  xlarge and xxlarge v2). A neighbour is read where attention may see it, so
  neither padding nor another text of a row counts.

  Attributes:
    kernel_size: The number of neighbours, the token itself among them; odd.
    activation: a key of `feed_forward.ACTIVATIONS`, or a function.
    norm: The normalization of the sum.
    dropout: applied before the activation.
    kernel_init: The distribution of the kernel.
  """

  kernel_size: int = 3
  activation: feed_forward.Activation = "gelu_exact"
  norm: nn.Module = part(LayerNorm)
  dropout: nn.Module = part(Dropout)
  kernel_init: Callable = initializers.fan_in_truncated_normal

  def __post_init__(self):
    feed_forward.check_activation(self.activation)
    if self.kernel_size < 1 or self.kernel_size % 2 == 0:
      raise UserError(
        f"Convolution.kernel_size is {self.kernel_size}; it must be odd, as "
        "many neighbours before a token as after it and the token itself"
      )
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    mask_B1LM: jax.Array | None,
    *,
    deterministic: bool,
  ) -> tuple[jax.Array, Mapping[str, jax.Array]]:
    """Returns what is added, [B, L, D], and the parameters of `join`."""
    width = x_BLD.shape[-1]
    kernel_XD = self.param(
      "kernel",
      axes.partitioned(self.kernel_init, "embed", "mlp"),
      (self.kernel_size * width, width),
      jnp.float32,
    )
    bias_D = self.param(
      "bias",
      axes.partitioned(nn.initializers.zeros, "embed"),
      (width,),
      jnp.float32,
    )
    reach = self.kernel_size // 2
    seen_BLX = jnp.concatenate(
      [
        neighbours.moved(x_BLD, mask_B1LM, place)
        for place in range(-reach, reach + 1)
      ],
      axis=-1,
    )
    added_BLD = seen_BLX @ kernel_XD.astype(x_BLD.dtype)
    added_BLD += jnp.broadcast_to(bias_D.astype(x_BLD.dtype), x_BLD.shape)
    added_BLD = self.dropout(added_BLD, deterministic=deterministic)
    added_BLD = feed_forward.activation(self.activation)(added_BLD)
    self.norm(added_BLD)  # Makes the parameters; the result is not used.
    return added_BLD, nn.unbox(self.norm.variables["params"])

  def join(
    self,
    y_BLD: jax.Array,
    added_BLD: jax.Array,
    params: Mapping[str, jax.Array],
  ) -> jax.Array:
    """Returns the norm of the sum; scanned layers have no module of ours."""
    norm = self.norm.clone(parent=None)
    return norm.apply({"params": params}, y_BLD + added_BLD)
