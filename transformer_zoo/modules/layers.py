"""Layers: the blocks that a stack repeats."""

from collections.abc import Callable
import functools

from flax import linen as nn
import gin
import jax

from transformer_zoo import axes
from transformer_zoo.modules import connections
from transformer_zoo.modules import kv_cache
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part


@gin.register
class EncoderLayer(nn.Module):
  """Self-attention and a feed-forward network.

  Attributes:
    attention: the self-attention.
    mlp: the feed-forward network.
    norm: normalization; each sublayer has a copy of its own.
    dropout: applied to the output of each sublayer.
    connect: how a sublayer meets the residual stream.
  """

  attention: nn.Module
  mlp: nn.Module
  norm: nn.Module = part(RMSNorm)
  dropout: nn.Module = part(Dropout)
  connect: Callable = connections.pre_norm

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    deterministic: bool,
  ) -> jax.Array:
    """Returns [B, L, D]."""
    dropout = functools.partial(self.dropout, deterministic=deterministic)
    x_BLD = axes.constrain(x_BLD, "batch", "length", "embed")
    x_BLD = self.connect(
      x_BLD,
      functools.partial(
        self.attention,
        mask_B1LM=mask_B1LM,
        bias_1HLM=bias_1HLM,
        deterministic=deterministic,
      ),
      norm=self.norm.copy(name="pre_attention_layer_norm"),
      dropout=dropout,
    )
    return self.connect(
      x_BLD,
      functools.partial(self.mlp, deterministic=deterministic),
      norm=self.norm.copy(name="pre_mlp_layer_norm"),
      dropout=dropout,
    )


@gin.register
class DecoderLayer(nn.Module):
  """Causal self-attention, attention to the encoder, and feed-forward.

  Attributes:
    self_attention: attention to earlier targets.
    encoder_decoder_attention: attention to the encoder's output.
    mlp: the feed-forward network.
    norm: normalization; each sublayer has a copy of its own.
    dropout: applied to the output of each sublayer.
    connect: how a sublayer meets the residual stream.
  """

  self_attention: nn.Module
  encoder_decoder_attention: nn.Module
  mlp: nn.Module
  norm: nn.Module = part(RMSNorm)
  dropout: nn.Module = part(Dropout)
  connect: Callable = connections.pre_norm

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    encoded_BMD: jax.Array,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    encoder_mask_B1LM: jax.Array | None,
    decoding: kv_cache.Decoding | None,
    deterministic: bool,
  ) -> jax.Array:
    """Returns [B, L, D]."""
    dropout = functools.partial(self.dropout, deterministic=deterministic)
    x_BLD = axes.constrain(x_BLD, "batch", "length", "embed")
    x_BLD = self.connect(
      x_BLD,
      functools.partial(
        self.self_attention,
        mask_B1LM=mask_B1LM,
        bias_1HLM=bias_1HLM,
        decoding=decoding,
        deterministic=deterministic,
      ),
      norm=self.norm.copy(name="pre_self_attention_layer_norm"),
      dropout=dropout,
    )
    x_BLD = self.connect(
      x_BLD,
      functools.partial(
        self.encoder_decoder_attention,
        memory_BMD=encoded_BMD,
        mask_B1LM=encoder_mask_B1LM,
        decoding=decoding,
        deterministic=deterministic,
      ),
      norm=self.norm.copy(name="pre_cross_attention_layer_norm"),
      dropout=dropout,
    )
    return self.connect(
      x_BLD,
      functools.partial(self.mlp, deterministic=deterministic),
      norm=self.norm.copy(name="pre_mlp_layer_norm"),
      dropout=dropout,
    )
