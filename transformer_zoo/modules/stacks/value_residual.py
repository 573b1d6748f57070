"""A stack whose layers attend to values of the first layer too (ResFormer)."""

from collections.abc import Callable, Mapping
from typing import Any

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import parts
from transformer_zoo.modules.attention.first_values import FirstValues
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.stack import Stack
from transformer_zoo.modules.stacks.other_layers import refuse_between_layers
from transformer_zoo.modules.stacks.other_layers import with_layers


@struct.dataclass
class StreamAndValues:
  """The state that goes from layer to layer.

  Attributes:
    stream: What layers without value residuals hand on, an array or a tree.
    value_BLGK: The values of the first layer; 0 before it.
  """

  stream: Any
  value_BLGK: jax.Array


class WithFirstValues:
  """A layer that hands the values of the first layer on."""

  def __call__(
    self,
    x: StreamAndValues,
    *arguments: Any,
    is_first: jax.Array | bool = False,
    **keywords: Any,
  ) -> StreamAndValues:
    """Returns the layer's output.

    Args:
      x: What the layer reads.
      *arguments: As of the layer.
      is_first: Whether the layer is the first.
      **keywords: As of the layer.
    """
    values = FirstValues(x.value_BLGK, is_first)
    stream = super().__call__(
      x.stream, *arguments, first_values=values, **keywords
    )
    return StreamAndValues(stream, values.value_BLGK)


class WithValueResiduals:
  """A stack through whose layers the values of the first layer go.

  The cache of a layer has values as the layer mixes them.
  """

  def __call__(
    self,
    x: Any,
    *arguments: Any,
    by_layer: Mapping[str, jax.Array] | None = None,
    collect: Callable[[Any], Any] | None = None,
    **keywords: Any,
  ) -> tuple[Any, Any]:
    """Applies the layers in order; arguments as of `Stack`."""
    refuse_between_layers("value_residual_stack", keywords)

    def collect_stream(x):
      return collect(x.stream)

    attention = _self_attention(self.layer)
    heads = attention.num_kv_heads or attention.num_heads
    like = jax.tree.leaves(x)[0]
    value_BLGK = axes.constrain(
      jnp.zeros((*like.shape[:2], heads, attention.head_dim), like.dtype),
      "batch",
      "length",
      "heads",
      "kv",
    )
    is_first_N = jnp.arange(self.num_layers) == 0
    x, collected = super().__call__(
      StreamAndValues(x, value_BLGK),
      *arguments,
      by_layer={**(by_layer or {}), "is_first": is_first_N},
      collect=None if collect is None else collect_stream,
      **keywords,
    )
    return x.stream, collected


def _self_attention(layer: nn.Module) -> nn.Module:
  if isinstance(layer, DecoderLayer):
    return layer.self_attention
  return layer.attention


@gin.register
def value_residual_stack(stack: Stack) -> Stack:
  """A stack through whose layers the values of the first layer go.

  Args:
    stack: The stack of encoder or decoder layers, whose self-attention is
      `Attention` with `value_residual`.

  Raises:
    UserError: There are other layers, or another attention.
  """

  def handing(layer):
    has_attention = type(layer) in (EncoderLayer, DecoderLayer)
    attention = _self_attention(layer) if has_attention else None
    if getattr(attention, "value_residual", None) is None:
      raise UserError(
        "value_residual_stack hands the values of the first layer to the "
        "self-attention of an EncoderLayer or DecoderLayer that is an "
        "Attention with value_residual; this layer is "
        + type(layer).__name__
        + (f" with {type(attention).__name__}" if has_attention else "")
        + "; bind Transformer.layer_stack = @Stack(), or other layers"
      )
    return parts.extended(layer, WithFirstValues)

  return parts.extended(with_layers(stack, handing), WithValueResiduals)
