"""Normalization over the feature axis."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float) -> jax.Array:
  """Scales x / RMS(x) over the last axis; statistics are float32."""
  x_float32 = x.astype(jnp.float32)
  mean_square = jnp.mean(jnp.square(x_float32), axis=-1, keepdims=True)
  normalized = x_float32 * jax.lax.rsqrt(mean_square + epsilon)
  scale = jnp.broadcast_to(scale.astype(x.dtype), x.shape)
  return normalized.astype(x.dtype) * scale


@gin.register
class RMSNorm(nn.Module):
  """Root mean square normalization (Zhang and Sennrich 2019), as T5 uses it.

  It has a scale and neither centres nor shifts.

  Attributes:
    epsilon: added to the mean square; 1e-6 in T5.
  """

  epsilon: float = 1e-6

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    scale = self.param(
      "scale",
      axes.partitioned(nn.initializers.ones, "embed"),
      (x.shape[-1],),
      jnp.float32,
    )
    return rms_norm(x, scale, self.epsilon)
