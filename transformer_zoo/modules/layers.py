"""Layers: the blocks that a stack repeats."""

from collections.abc import Callable
import functools
from typing import Any

from flax import linen as nn
import gin
import jax

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import connections
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Beside
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Bias
from transformer_zoo.modules.positions import Positions


class ConnectedLayer:
  """The end of a layer: its sublayers meet the residual stream."""

  @nn.nowrap
  def joined(
    self,
    x: Any,
    sublayers: connections.Sublayers,
    *,
    deterministic: bool,
  ) -> Any:
    """Returns [B, L, D]; called inside of the layer's `__call__`.

    Of a connection of several streams it is a tree of arrays, as x is.
    """
    return self.connect(
      jax.tree.map(_laid_out, x),
      sublayers,
      norm=lambda name: self.norm.copy(name=name),
      dropout=functools.partial(self.dropout, deterministic=deterministic),
    )


@gin.register
class EncoderLayer(ConnectedLayer, nn.Module):
  """Self-attention and a feed-forward network.

  Attributes:
    attention: the self-attention.
    mlp: the feed-forward network; None if the attention has it.
    norm: normalization; each sublayer has copies of its own.
    dropout: applied to the output of each sublayer.
    connect: how the sublayers meet the residual stream.
  """

  attention: nn.Module
  mlp: nn.Module | None
  norm: nn.Module = part(RMSNorm)
  dropout: nn.Module = part(Dropout)
  connect: Callable = connections.pre_norm

  @nn.compact
  def __call__(
    self, x_BLD: jax.Array, *, deterministic: bool, **keywords
  ) -> jax.Array:
    """Returns [B, L, D]; `keywords` are those of `sublayers`."""
    sublayers = self.sublayers(deterministic=deterministic, **keywords)
    return self.joined(x_BLD, sublayers, deterministic=deterministic)

  @nn.nowrap
  def sublayers(
    self,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    bias_1HLM: jax.Array | Bias | None,
    positions: Positions,
    deterministic: bool,
    score_scale: jax.Array | None = None,
    window: jax.Array | None = None,
    **of_attention,
  ) -> connections.Sublayers:
    """Returns attention and the network by name.

    `of_attention` are its further keyword arguments.
    """
    mask_B1LM, positions = masks.within(window, mask_B1LM, positions)
    sublayers = {
      "attention": functools.partial(
        self.attention,
        mask_B1LM=mask_B1LM,
        bias_1HLM=bias_1HLM,
        positions=positions,
        score_scale=score_scale,
        deterministic=deterministic,
        **of_attention,
      )
    }
    if self.mlp is not None:
      sublayers["mlp"] = functools.partial(
        self.mlp,
        deterministic=deterministic,
        **_of_tokens(self.mlp, mask_B1LM),
      )
    return sublayers


@gin.register
class DecoderLayer(ConnectedLayer, nn.Module):
  """Causal self-attention, attention to an encoder if any, and feed-forward.

  Attributes:
    self_attention: attention to earlier tokens.
    mlp: the feed-forward network; None if the attention has it.
    encoder_decoder_attention: attention to the encoder's output; None in a
      decoder-only model.
    norm: normalization; each sublayer has copies of its own.
    dropout: applied to the output of each sublayer.
    connect: how the sublayers meet the residual stream.
  """

  self_attention: nn.Module
  mlp: nn.Module | None
  encoder_decoder_attention: nn.Module | None = None
  norm: nn.Module = part(RMSNorm)
  dropout: nn.Module = part(Dropout)
  connect: Callable = connections.pre_norm

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    encoded_BMD: jax.Array | None = None,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    positions: Positions,
    deterministic: bool,
    score_scale: jax.Array | None = None,
    window: jax.Array | None = None,
    encoder_mask_B1LM: jax.Array | None = None,
    decoding: cache.Decoding | None = None,
    **of_self_attention,
  ) -> jax.Array:
    """Returns [B, L, D].

    Without `encoded_BMD` the attention to an encoder is left out: so a layer
    also serves as one of the encoder that shares its weights.
    `of_self_attention` are further keyword arguments of that one.
    """
    mask_B1LM, positions = masks.within(window, mask_B1LM, positions)
    sublayers = {
      "self_attention": functools.partial(
        self.self_attention,
        mask_B1LM=mask_B1LM,
        bias_1HLM=bias_1HLM,
        positions=positions,
        score_scale=score_scale,
        decoding=decoding,
        deterministic=deterministic,
        **of_self_attention,
      )
    }
    if encoded_BMD is not None:
      if self.encoder_decoder_attention is None:
        raise UserError(
          "DecoderLayer.encoder_decoder_attention is None, but there is an "
          "encoder; bind @Attention(), or MODEL = @DecoderOnly()"
        )
      sublayers["cross_attention"] = functools.partial(
        self.encoder_decoder_attention,
        memory_BMD=encoded_BMD,
        mask_B1LM=encoder_mask_B1LM,
        decoding=decoding,
        deterministic=deterministic,
      )
    if self.mlp is not None:
      sublayers["mlp"] = functools.partial(
        self.mlp,
        deterministic=deterministic,
        **_of_tokens(self.mlp, mask_B1LM, decoding),
      )
    return self.joined(x_BLD, sublayers, deterministic=deterministic)


@gin.register
class MergedDecoderLayer(ConnectedLayer, nn.Module):
  """Attention to earlier tokens and to an encoder in one, and feed-forward.

  T5Gemma 2's decoder (Zhang et al. 2025, "merged attention").

  Attributes:
    self_attention: attention to earlier tokens and to the encoder's output, by
      one set of projections and one softmax.
    mlp: the feed-forward network.
    norm: normalization; each sublayer has copies of its own.
    dropout: applied to the output of each sublayer.
    connect: how the sublayers meet the residual stream.
  """

  self_attention: nn.Module
  mlp: nn.Module
  norm: nn.Module = part(RMSNorm)
  dropout: nn.Module = part(Dropout)
  connect: Callable = connections.pre_norm

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    encoded_BMD: jax.Array | None = None,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    positions: Positions,
    deterministic: bool,
    score_scale: jax.Array | None = None,
    window: jax.Array | None = None,
    encoder_mask_B1LM: jax.Array | None = None,
    decoding: cache.Decoding | None = None,
  ) -> jax.Array:
    """Returns [B, L, D]; a window is of earlier tokens alone."""
    beside = {}
    if encoded_BMD is not None:
      places = None
      if decoding is None:
        places = masks.places_in_texts(mask_B1LM, x_BLD.shape[:2])
      beside["beside"] = Beside(encoded_BMD, encoder_mask_B1LM, places)
    mask_B1LM, positions = masks.within(window, mask_B1LM, positions)
    sublayers = {
      "self_attention": functools.partial(
        self.self_attention,
        mask_B1LM=mask_B1LM,
        bias_1HLM=bias_1HLM,
        positions=positions,
        score_scale=score_scale,
        decoding=decoding,
        deterministic=deterministic,
        **beside,
      ),
      "mlp": functools.partial(
        self.mlp,
        deterministic=deterministic,
        **_of_tokens(self.mlp, mask_B1LM, decoding),
      ),
    }
    return self.joined(x_BLD, sublayers, deterministic=deterministic)


def _laid_out(x_BLD: jax.Array) -> jax.Array:
  """The stream, or streams [B, L, X, D], by the rules in force."""
  whole = (None,) * (x_BLD.ndim - 3)
  return axes.constrain(x_BLD, "batch", "length", *whole, "embed")


def _of_tokens(
  mlp: nn.Module,
  mask_B1LM: jax.Array | masks.Mask | None,
  decoding: cache.Decoding | None = None,
) -> dict[str, Any]:
  """The keywords of a feed-forward network that asks which tokens there are."""
  if not getattr(mlp, "reads_tokens", False):
    return {}
  writes = decoding is not None and decoding.position is not None
  return {
    "valid_BL": None if writes else masks.tokens(mask_B1LM),
    "may_drop": not writes,
  }
