"""A stack that pools its states: the Funnel Transformer (Dai et al. 2020)."""

from collections.abc import Mapping
import inspect
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules import connections
from transformer_zoo.modules import parts
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.positions import Bias
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.stack import refuse_with_stages
from transformer_zoo.modules.stack import Stack
from transformer_zoo.modules.stacks.other_layers import StackWithOtherLayers


class PoolingLayer(EncoderLayer):
  """An encoder layer whose states are pooled behind its attention.

  Attributes:
    pooling: The number of neighbouring states whose mean is left.
  """

  pooling: int = 2

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    deterministic: bool,
    **keywords,
  ) -> jax.Array:
    """Returns [B, L / pooling, D], rounded up."""
    attention, mlp = self.sublayers(
      mask_B1LM=mask_B1LM, deterministic=deterministic, **keywords
    ).items()
    x_BLD = self.joined(x_BLD, dict([attention]), deterministic=deterministic)
    x_BLD = means(x_BLD, tokens(mask_B1LM, x_BLD), self.pooling)
    return self.joined(x_BLD, dict([mlp]), deterministic=deterministic)


class FunnelStack(StackWithOtherLayers):
  """A stack of encoder layers whose sequences get shorter.

  The layers are in blocks of equally many. States are pooled in the first layer
  of each block but the first, between attention and the feed-forward network,
  as Mesh TensorFlow does; in the paper the queries of that attention are pooled
  alone. A mean is over the tokens among its states: Mesh TensorFlow's has those
  of padding in it, where a text ends within one.

  Attributes:
    num_blocks: The number of blocks.
    pooling: The number of neighbouring states whose mean is left.
  """

  num_blocks: int = 3
  pooling: int = 2

  def __post_init__(self):
    super().__post_init__()
    if self.pooling < 2:
      raise UserError(
        f"funnel_stack.pooling is {self.pooling}; at least 2 states become one"
      )
    if self.num_blocks < 1 or self.num_layers % self.num_blocks:
      raise UserError(
        f"funnel_stack.num_blocks is {self.num_blocks}; it must divide "
        f"num_layers, {self.num_layers}: blocks have equally many layers"
      )

  @property
  def stride(self) -> int:
    """The number of tokens that a state of the output stands for."""
    return self.pooling ** (self.num_blocks - 1)

  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    bias_1HLM: jax.Array | Bias | None,
    positions: Positions,
    by_layer: Mapping[str, jax.Array] | None = None,
    collect: Any = None,
    deterministic: bool = True,
    **keywords: Any,
  ) -> tuple[jax.Array, None]:
    """Applies the layers in order.

    Args:
      x_BLD: What the first layer reads.
      mask_B1LM: As of a layer.
      bias_1HLM: As of a layer, for the whole sequence.
      positions: As of a layer, of the whole sequence.
      by_layer: As of `Stack`.
      collect: As of `Stack`; refused.
      deterministic: no dropout.
      **keywords: Further keyword arguments of every layer.

    Returns:
      [B, L / stride, D], rounded up, and None.

    Raises:
      UserError: What is asked for needs sequences of one length.
    """
    refuse_with_stages({"a Funnel Transformer": True})
    if collect is not None or "relative" in keywords:
      raise UserError(
        "states of a Funnel Transformer have different lengths: there is no "
        "mix of the states of its layers, and no relative_embedder; use "
        "another encoder, or bind encoder/Transformer.mix and "
        "encoder/Transformer.relative_embedder = None"
      )
    of_block = self.num_layers // self.num_blocks
    borders = [0, *range(of_block + 1, self.num_layers, of_block)]
    for first, end in zip(
      borders, [*borders[1:], self.num_layers], strict=True
    ):
      valid_BL = tokens(mask_B1LM, x_BLD)
      x_BLD, _ = super().__call__(
        x_BLD,
        mask_B1LM=mask_B1LM,
        bias_1HLM=bias_1HLM,
        positions=positions,
        by_layer=by_layer,
        order=range(first, end),
        deterministic=deterministic,
        **keywords,
      )
      if end < self.num_layers:
        length = x_BLD.shape[1]
        mask_B1LM = _mask(valid_BL[:, :: self.pooling])
        bias_1HLM = _shorter(bias_1HLM, length)
        positions = Positions.of_length(
          length, bidirectional=positions.bidirectional
        )
    return x_BLD, None


@gin.register
def funnel_stack(
  stack: Stack, num_blocks: int = 3, pooling: int = 2
) -> FunnelStack:
  """A stack whose sequences get shorter.

  Args:
    stack: The stack of encoder layers.
    num_blocks: The number of blocks, between which states are pooled.
    pooling: The number of neighbouring states whose mean is left.
  """
  layer = stack.layer
  if (
    type(layer) is not EncoderLayer
    or inspect.unwrap(layer.connect) is connections.parallel
  ):
    raise UserError(
      "a Funnel Transformer pools between attention and the feed-forward "
      "network of an EncoderLayer; bind encoder/Stack.layer = "
      "@EncoderLayer(), and another CONNECT than @connections.parallel"
    )
  of_block = max(1, stack.num_layers // max(1, num_blocks))
  return parts.replaced(
    stack,
    FunnelStack,
    num_blocks=num_blocks,
    pooling=pooling,
    other_layer=parts.replaced(layer, PoolingLayer, pooling=pooling),
    places=tuple(range(of_block, stack.num_layers, of_block)),
  )


def means(x_BLD: jax.Array, valid_BL: jax.Array, pooling: int) -> jax.Array:
  """The means of neighbouring states, [B, L / pooling, D], rounded up.

  Args:
    x_BLD: The states.
    valid_BL: True for those that count, [1 or B, L]; where none does, 0.
    pooling: The number of neighbours.
  """
  more = -x_BLD.shape[1] % pooling
  valid_BL1 = jnp.pad(valid_BL, ((0, 0), (0, more)))[..., None]
  x_BLD = jnp.pad(x_BLD, ((0, 0), (0, more), (0, 0))) * valid_BL1

  def sums(x_BLX):
    return x_BLX.reshape(x_BLX.shape[0], -1, pooling, x_BLX.shape[-1]).sum(2)

  return sums(x_BLD) / jnp.maximum(sums(valid_BL1.astype(x_BLD.dtype)), 1)


def tokens(
  mask_B1LM: jax.Array | masks.Mask | None, x_BLD: jax.Array
) -> jax.Array:
  """True for the tokens among states, False for padding, [1 or B, L]."""
  valid_BL = masks.tokens(mask_B1LM)
  return jnp.ones((1, x_BLD.shape[1]), bool) if valid_BL is None else valid_BL


def _mask(valid_BL: jax.Array) -> masks.Mask:
  """Tokens see each other."""
  return masks.Mask(
    masks.padding_mask(valid_BL, valid_BL),
    masks.ids_of_tokens(valid_BL, None, masks.NO_QUERY),
    masks.ids_of_tokens(valid_BL, None, masks.NO_KEY),
  )


def _shorter(bias: jax.Array | Bias | None, length: int):
  """The bias of the first places."""
  if bias is None:
    return None
  if not isinstance(bias, Bias):
    return bias[..., :length, :length]
  whole = bias.array_1HLM.shape[-1]
  return Bias(
    bias.array_1HLM[..., :length, :length],
    bias.by_distance_1HR[..., whole - length : whole + length - 1],
  )
