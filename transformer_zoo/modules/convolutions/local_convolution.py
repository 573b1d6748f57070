"""Convolutions over neighbours in the place of attention to oneself.

Wu et al. 2019, in the form of Mesh TensorFlow: a gated linear unit, a
convolution of each feature alone whose weights a softmax makes over the
neighbours, and two projections. The first token of an output is read; the
original takes its id, 0, for padding, and leaves it out.
"""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules import neighbours
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.feed_forward import GatedLinearUnit
from transformer_zoo.modules.linear import as_row
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part


def check_reach(module: nn.Module) -> None:
  """Raises UserError for a negative number of neighbours."""
  if module.before < 0 or module.after < 0:
    raise UserError(
      f"{type(module).__name__}.before is {module.before} and after "
      f"{module.after}; they are numbers of tokens"
    )


@gin.register
class LightweightConvolution(nn.Module):
  """A convolution whose weights are the same everywhere.

  Attributes:
    before, after: The number of tokens that are read on each side; `after` is 0
      where tokens are written one after the other.
    num_kernels: The number of kernels, which features have in turn; None for
      one of each feature.
    glu: The gated linear unit.
    pointwise: The projection after the convolution.
    out: The projection of the output.
  """

  before: int
  after: int = 0
  num_kernels: int | None = None
  glu: nn.Module = part(GatedLinearUnit)
  pointwise: nn.Module = part(
    Linear, kernel_axes=("mlp", "embed"), use_bias=True
  )
  out: nn.Module = part(Linear, use_bias=True)

  def __post_init__(self):
    check_reach(self)
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    decoding: cache.Decoding | None = None,
    **of_attention,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: what enters; while decoding, the tokens of L outputs.
      mask_B1LM: True where a token sees another; None if all do.
      decoding: Where decoding stands, if it does.
      **of_attention: what attention reads besides.

    Raises:
      UserError: The features cannot have the kernels in turn.
    """
    del of_attention
    width = x_BLD.shape[-1]
    repeats, rest = divmod(width, self.num_kernels or width)
    if rest:
      raise UserError(
        f"{type(self).__name__}.num_kernels is {self.num_kernels}; it must "
        f"divide the width of the layers, {width}"
      )
    x_BLD = self.glu(x_BLD)
    places = self.before + 1 + self.after
    # [B, L, X, kernels], or without B and L where weights are the same.
    weights_X = jax.nn.softmax(
      self._weights(x_BLD, places, width // repeats), axis=-2
    )
    weights_X = jnp.tile(weights_X, repeats)
    y_BLD = sum(
      near_BLD * jnp.broadcast_to(weights_X[..., place, :], near_BLD.shape)
      for place, near_BLD in enumerate(
        neighbours.around(
          self,
          x_BLD,
          before=self.before,
          after=self.after,
          mask_B1LM=mask_B1LM,
          decoding=decoding,
        )
      )
    )
    bias_D = self.param(
      "bias",
      axes.partitioned(nn.initializers.zeros, "mlp"),
      (width,),
      jnp.float32,
    )
    y_BLD = axes.constrain(
      y_BLD + as_row(bias_D, y_BLD), "batch", "length", "mlp"
    )
    return self.out(self.pointwise(y_BLD, width), width)

  def _weights(self, x_BLD, places, kernels):
    """Returns what the softmax is of, [X, kernels]."""
    return self.param(
      "kernel",
      axes.partitioned(nn.initializers.normal(places**-0.5), None, "mlp"),
      (places, kernels),
      jnp.float32,
    ).astype(x_BLD.dtype)


@gin.register
class DynamicConvolution(LightweightConvolution):
  """A convolution whose weights are computed from each token.

  Attributes:
    weights: The projection to the weights of all neighbours and kernels.
  """

  weights: nn.Module = part(
    Linear,
    kernel_axes=("embed", None),
    kernel_init=initializers.fan_in_normal,
    use_bias=True,
  )

  def _weights(self, x_BLD, places, kernels):
    """Returns what the softmax is of, [B, L, X, kernels]."""
    weights = self.weights(x_BLD, places * kernels)
    return weights.reshape(*x_BLD.shape[:-1], places, kernels)
