"""A stack whose layers attend to memories of their own."""

from collections.abc import Mapping
from typing import Any

import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules import parts
from transformer_zoo.modules.stack import refuse_with_stages
from transformer_zoo.modules.stack import Stack


class StackWithMemories(Stack):
  """A `Stack` of decoder layers, each of which has its own memory."""

  def __call__(
    self,
    x: Any,
    memories_BNMD: jax.Array | None = None,
    *,
    by_layer: Mapping[str, jax.Array] | None = None,
    **keywords: Any,
  ) -> tuple[Any, Any]:
    """Applies the layers in order.

    Args:
      x: What the first layer reads.
      memories_BNMD: The memory of each of N layers (`MixOfEachLayer`).
      by_layer: As of `Stack`.
      **keywords: As of `Stack`.

    Raises:
      UserError: The encoder gives no memory for each layer.
    """
    refuse_with_stages({"transparent attention": True})
    wanted = (self.num_layers,)
    found = () if memories_BNMD is None else memories_BNMD.shape[1:-2]
    if found != wanted:
      raise UserError(
        f"{self.num_layers} layers of the decoder attend to memories of their "
        "own, but the encoder gives "
        + (f"{found[0]} memories" if found else "one output")
        + "; bind encoder/Transformer.mix = @MixOfEachLayer() with num_layers "
        "= %NUM_DECODER_LAYERS (parts/stacks/transparent_attention.gin)"
      )
    memories_NBMD = jnp.moveaxis(memories_BNMD, 1, 0)
    return super().__call__(
      x,
      by_layer={**(by_layer or {}), "encoded_BMD": memories_NBMD},
      **keywords,
    )


@gin.register
def with_memories(stack: Stack) -> StackWithMemories:
  """A stack whose layers attend to memories of their own.

  Args:
    stack: The stack of decoder layers.
  """
  return parts.replaced(stack, StackWithMemories)
