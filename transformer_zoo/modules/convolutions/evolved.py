"""The two cells of the Evolved Transformer (So et al. 2019).

In the form of Mesh TensorFlow: ReLU, and each cell as two layers of T5. Its
convolutions leave out the first token of an output, whose id, 0, it takes for
padding; these read it.
"""

from collections.abc import Callable
import functools

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import connections
from transformer_zoo.modules import initializers
from transformer_zoo.modules import neighbours
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.feed_forward import GatedLinearUnit
from transformer_zoo.modules.layers import ConnectedLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.linear import as_row
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Positions


@gin.register(module="evolved")
def twice(number: int) -> int:
  """Twice a number: the heads of the first attention of the decoder's cell."""
  return 2 * number


class SeparableConvolution(nn.Module):
  """A convolution of each feature alone, and a projection.

  Attributes:
    before, after: The number of tokens that are read on each side.
    axis: The logical axis of the features that enter.
    pointwise: The projection.
  """

  before: int
  after: int = 0
  axis: str = "embed"
  pointwise: nn.Module = part(Linear, use_bias=True)

  @nn.compact
  def __call__(
    self,
    x_BLX: jax.Array,
    features: int,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    decoding: cache.Decoding | None = None,
  ) -> jax.Array:
    """Maps [B, L, X] to [B, L, features]."""
    width = x_BLX.shape[-1]
    places = self.before + 1 + self.after
    kernel_RX = self.param(
      "kernel",
      axes.partitioned(nn.initializers.normal(places**-0.5), None, self.axis),
      (places, width),
      jnp.float32,
    ).astype(x_BLX.dtype)
    bias_X = self.param(
      "bias",
      axes.partitioned(nn.initializers.zeros, self.axis),
      (width,),
      jnp.float32,
    )
    near = neighbours.around(
      self,
      x_BLX,
      before=self.before,
      after=self.after,
      mask_B1LM=mask_B1LM,
      decoding=decoding,
    )
    y_BLX = sum(
      each_BLX * kernel_RX[place][None, None]
      for place, each_BLX in enumerate(near)
    )
    return self.pointwise(y_BLX + as_row(bias_X, y_BLX), features)


def _of_hidden(**reach: int) -> SeparableConvolution:
  """A separable convolution of hidden features."""
  pointwise = Linear(kernel_axes=("mlp", "embed"), use_bias=True)
  return SeparableConvolution(**reach, axis="mlp", pointwise=pointwise)


def _padded(x_BLX: jax.Array, width: int) -> jax.Array:
  """Returns x with zeros for the features that it has not."""
  return jnp.pad(x_BLX, ((0, 0), (0, 0), (0, width - x_BLX.shape[-1])))


@gin.register
class EvolvedEncoderConvolution(nn.Module):
  """The convolutions of the encoder's cell.

  A projection to four times the width beside a convolution of three tokens to
  half of it; their normalized sum goes through a separable convolution of nine
  to half the width, and the other half is 0.

  Attributes:
    wide: The projection.
    narrow: The projection of three tokens.
    norm: The normalization of the sum.
    separable: The separable convolution.
    dropout: applied to all three.
  """

  wide: nn.Module = part(Linear)
  narrow: nn.Module = part(Linear, kernel_init=initializers.fan_average_uniform)
  norm: nn.Module = part(LayerNorm, epsilon=1e-6, axis="mlp")
  separable: nn.Module = part(_of_hidden, before=4, after=4)
  dropout: nn.Module = part(Dropout)

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    deterministic: bool,
  ) -> jax.Array:
    """Returns [B, L, D]."""
    width = x_BLD.shape[-1]
    dropout = functools.partial(self.dropout, deterministic=deterministic)
    wide_BLF = dropout(nn.relu(self.wide(x_BLD, 4 * width)))
    near = neighbours.around(
      self, x_BLD, before=1, after=1, mask_B1LM=mask_B1LM, decoding=None
    )
    narrow_BLX = self.narrow(jnp.concatenate(near, axis=-1), width // 2)
    narrow_BLX = dropout(nn.relu(narrow_BLX))
    hidden_BLF = self.norm(wide_BLF + _padded(narrow_BLX, 4 * width))
    hidden_BLF = axes.constrain(hidden_BLF, "batch", "length", "mlp")
    y_BLX = self.separable(hidden_BLF, width // 2, mask_B1LM=mask_B1LM)
    return _padded(dropout(y_BLX), width)


@gin.register
class EvolvedDecoderConvolution(nn.Module):
  """The convolutions of the decoder's cell, over tokens that are written.

  A separable convolution of eleven tokens to twice the width beside one of
  seven to half of it; their normalized sum goes through one of seven.

  Attributes:
    wide: The convolution of eleven tokens.
    narrow: The first convolution of seven.
    norm: The normalization of the sum.
    last: The second convolution of seven.
    dropout: applied to all three.
  """

  wide: nn.Module = part(SeparableConvolution, before=10)
  narrow: nn.Module = part(SeparableConvolution, before=6)
  norm: nn.Module = part(LayerNorm, epsilon=1e-6, axis="mlp")
  last: nn.Module = part(_of_hidden, before=6)
  dropout: nn.Module = part(Dropout)

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    decoding: cache.Decoding | None,
    deterministic: bool,
  ) -> jax.Array:
    """Returns [B, L, D]."""
    width = x_BLD.shape[-1]
    dropout = functools.partial(self.dropout, deterministic=deterministic)
    of_itself = {"mask_B1LM": mask_B1LM, "decoding": decoding}
    wide_BLF = dropout(nn.relu(self.wide(x_BLD, 2 * width, **of_itself)))
    narrow_BLX = dropout(self.narrow(x_BLD, width // 2, **of_itself))
    hidden_BLF = self.norm(wide_BLF + _padded(narrow_BLX, 2 * width))
    hidden_BLF = axes.constrain(hidden_BLF, "batch", "length", "mlp")
    return dropout(self.last(hidden_BLF, width, **of_itself))


@gin.register
class EvolvedEncoderLayer(EncoderLayer):
  """The encoder's cell: gated unit, convolutions, attention, feed-forward.

  Attributes:
    glu: The gated linear unit.
    convolution: the convolutions.
  """

  glu: nn.Module = part(GatedLinearUnit)
  convolution: nn.Module = part(EvolvedEncoderConvolution)

  @nn.nowrap
  def sublayers(
    self,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    deterministic: bool,
    **keywords,
  ) -> connections.Sublayers:
    """Returns the sublayers by name; arguments as of `EncoderLayer`."""
    convolution = functools.partial(
      self.convolution, mask_B1LM=mask_B1LM, deterministic=deterministic
    )
    of_layer = super().sublayers(
      mask_B1LM=mask_B1LM, deterministic=deterministic, **keywords
    )
    return {"glu": self.glu, "convolution": convolution, **of_layer}


@gin.register
class EvolvedDecoderLayer(ConnectedLayer, nn.Module):
  """The decoder's cell.

  The sum of two attentions, to itself with twice the heads and to the encoder;
  convolutions; attention to itself, to the encoder, and feed-forward.

  Attributes:
    wide_attention: The first attention to earlier tokens.
    self_attention: The second.
    mlp: the feed-forward network.
    encoder_decoder_attention: attention to the encoder's output, of which there
      are two; None in a decoder-only model.
    convolution: the convolutions.
    norm: normalization; each sublayer has copies of its own.
    dropout: applied to the output of each sublayer.
    connect: how the sublayers meet the residual stream.
  """

  wide_attention: nn.Module
  self_attention: nn.Module
  mlp: nn.Module
  encoder_decoder_attention: nn.Module | None = None
  convolution: nn.Module = part(EvolvedDecoderConvolution)
  norm: nn.Module = part(RMSNorm)
  dropout: nn.Module = part(Dropout)
  connect: Callable = connections.pre_norm

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    encoded_BMD: jax.Array | None = None,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    bias_1HLM: jax.Array | None,
    positions: Positions,
    deterministic: bool,
    score_scale: jax.Array | None = None,
    window: jax.Array | None = None,
    encoder_mask_B1LM: jax.Array | None = None,
    decoding: cache.Decoding | None = None,
  ) -> jax.Array:
    """Returns [B, L, D]; arguments as of `DecoderLayer`."""
    mask_B1LM, positions = masks.within(window, mask_B1LM, positions)
    of_itself = {
      "mask_B1LM": mask_B1LM,
      "bias_1HLM": bias_1HLM,
      "positions": positions,
      "score_scale": score_scale,
      "decoding": decoding,
      "deterministic": deterministic,
    }

    def to_encoder(attention):
      return functools.partial(
        attention,
        memory_BMD=encoded_BMD,
        mask_B1LM=encoder_mask_B1LM,
        decoding=decoding,
        deterministic=deterministic,
      )

    def both(x_BLD):
      y_BLD = self.wide_attention(x_BLD, **of_itself)
      if encoded_BMD is None:
        return y_BLD
      attention = self.encoder_decoder_attention
      beside = attention.copy(name="wide_encoder_decoder_attention")
      return y_BLD + to_encoder(beside)(x_BLD)

    sublayers = {
      "wide_attention": both,
      "convolution": functools.partial(
        self.convolution,
        mask_B1LM=mask_B1LM,
        decoding=decoding,
        deterministic=deterministic,
      ),
      "self_attention": functools.partial(self.self_attention, **of_itself),
    }
    if encoded_BMD is not None:
      if self.encoder_decoder_attention is None:
        raise UserError(
          "EvolvedDecoderLayer.encoder_decoder_attention is None, but there is "
          "an encoder; bind @Attention(), or MODEL = @DecoderOnly()"
        )
      sublayers["cross_attention"] = to_encoder(self.encoder_decoder_attention)
    sublayers["mlp"] = functools.partial(self.mlp, deterministic=deterministic)
    return self.joined(x_BLD, sublayers, deterministic=deterministic)
