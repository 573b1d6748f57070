"""Normalization over the feature axis."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError


def _check_epsilon(norm: nn.Module) -> None:
  if norm.epsilon < 0:
    raise UserError(
      f"{type(norm).__name__}.epsilon is {norm.epsilon}; what is added to keep "
      "a root from 0 cannot be negative"
    )


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
    axis: The logical axis of the features.
  """

  epsilon: float = 1e-6
  axis: str = "embed"

  def __post_init__(self):
    _check_epsilon(self)
    super().__post_init__()

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    scale = self.param(
      "scale",
      axes.partitioned(nn.initializers.ones, self.axis),
      (x.shape[-1],),
      jnp.float32,
    )
    return rms_norm(x, scale, self.epsilon)


@gin.register
class RMSNormOfAllHeads(RMSNorm):
  """RMSNorm over the features of all heads together (OLMo 2)."""

  axis: str = "joined_kv"

  def __call__(self, x_BLHK: jax.Array) -> jax.Array:
    x_BLX = x_BLHK.reshape(*x_BLHK.shape[:-2], -1)
    return super().__call__(x_BLX).reshape(x_BLHK.shape)


@gin.register
class ZeroCentredRMSNorm(RMSNorm):
  """RMSNorm whose scale begins at 0 and is added to 1 (Gemma).

  What draws parameters to 0, as weight decay does, leaves a norm without a
  scale. Products with the scale are float32 (`Gemma2RMSNorm` of
  `transformers`).
  """

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    scale_D = self.param(
      "scale",
      axes.partitioned(nn.initializers.zeros, self.axis),
      (x.shape[-1],),
      jnp.float32,
    )
    y = rms_norm(x.astype(jnp.float32), 1 + scale_D, self.epsilon)
    return y.astype(x.dtype)


@gin.register
class LayerNorm(nn.Module):
  """Layer normalization (Ba et al. 2016); statistics are float32.

  Attributes:
    epsilon: added to the variance.
    use_bias: whether there is a shift beside the scale.
    axis: The logical axis of the features.
  """

  epsilon: float = 1e-5
  use_bias: bool = True
  axis: str = "embed"

  def __post_init__(self):
    _check_epsilon(self)
    super().__post_init__()

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    x_float32 = x.astype(jnp.float32)
    centred = x_float32 - jnp.mean(x_float32, axis=-1, keepdims=True)
    y = self._scaled(centred).astype(x.dtype)
    y = y * self._vector("scale", nn.initializers.ones, x)
    if self.use_bias:
      y = y + self._vector("bias", nn.initializers.zeros, x)
    return y

  def _scaled(self, centred: jax.Array) -> jax.Array:
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + self.epsilon)

  def _vector(self, name: str, init, x: jax.Array) -> jax.Array:
    """Returns a parameter [D], broadcast to x in its dtype."""
    vector_D = self.param(
      name, axes.partitioned(init, self.axis), (x.shape[-1],), jnp.float32
    )
    return jnp.broadcast_to(vector_D.astype(x.dtype), x.shape)


@gin.register
class AnnotatedLayerNorm(LayerNorm):
  """The form of The Annotated Transformer (Rush 2018).

  Divides by the unbiased standard deviation plus epsilon.
  """

  def _scaled(self, centred: jax.Array) -> jax.Array:
    total = jnp.sum(jnp.square(centred), axis=-1, keepdims=True)
    # The root's slope at 0 is infinite; dropout can leave a vector of zeros.
    varies = total > 0
    variance = jnp.where(varies, total, 1.0) / (centred.shape[-1] - 1)
    deviation = jnp.where(varies, jnp.sqrt(variance), 0.0)
    return centred / (deviation + self.epsilon)
