"""Linear maps over the last axis."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.modules import initializers


@gin.register
class Linear(nn.Module):
  """x @ kernel (+ bias), in the dtype of x; parameters are float32.

  Attributes:
    kernel_axes: logical axes of the kernel, (in, out).
    kernel_init: distribution of the kernel.
    use_bias: whether to add a bias, initially 0.
  """

  kernel_axes: tuple[str, str] = ("embed", "mlp")
  kernel_init: Callable = initializers.fan_in_truncated_normal
  use_bias: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, features: int) -> jax.Array:
    """Maps [..., in] to [..., features]."""
    kernel = self.param(
      "kernel",
      axes.partitioned(self.kernel_init, *self.kernel_axes),
      (x.shape[-1], features),
      jnp.float32,
    )
    y = x @ kernel.astype(x.dtype)
    if self.use_bias:
      bias = self.param(
        "bias",
        axes.partitioned(nn.initializers.zeros, self.kernel_axes[-1]),
        (features,),
        jnp.float32,
      )
      y = y + bias.astype(x.dtype)
    return y
