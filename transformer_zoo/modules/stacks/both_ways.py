"""Two stacks that read a text in both ways, side by side (ELMo)."""

from collections.abc import Callable
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.stack import Stack


@gin.register
class Doubled(nn.Module):
  """Embeddings twice, one copy for each of the stacks of `BothWays`."""

  def __call__(self, x_BLD: jax.Array) -> jax.Array:
    """Maps [B, L, D] to [B, L, 2 D]."""
    return jnp.concatenate([x_BLD, x_BLD], axis=-1)


class BothWays(nn.Module):
  """A stack that reads from left to right beside one from right to left.

  The first half of a vector goes through the one, the second half through the
  other, and neither sees the other's (Peters et al. 2018, section 3.1). The
  second is given the text in reverse: a layer of both has only to be causal.

  Attributes:
    left_to_right: The stack of the first half.
    right_to_left: The stack of the second half.
  """

  left_to_right: Stack
  right_to_left: Stack

  @property
  def num_layers(self) -> int:
    """The number of layers of each stack."""
    return self.left_to_right.num_layers

  @nn.compact
  def __call__(
    self,
    x_BLX: jax.Array,
    *arguments: Any,
    mask_B1LM: jax.Array | masks.Mask | None = None,
    collect: Callable[[Any], Any] | None = None,
    **keywords: Any,
  ) -> tuple[jax.Array, Any]:
    """Applies the layers of both stacks.

    Args:
      x_BLX: [B, L, 2 D], what the first layers read.
      *arguments: As of `Stack`.
      mask_B1LM: True where a token may see another, on either side.
      collect: As of `Stack`.
      **keywords: As of `Stack`.

    Returns:
      [B, L, 2 D]; and what is collected, of all layers, both halves of it.
    """
    first_BLD, second_BLD = jnp.split(x_BLX, 2, axis=-1)
    array_B1LM = masks.whole(mask_B1LM)
    causal_11LM = masks.causal_mask(x_BLX.shape[1])

    def run(stack, x_BLD, array_B1LM):
      return stack(
        x_BLD,
        *arguments,
        mask_B1LM=masks.combine(array_B1LM, causal_11LM),
        collect=collect,
        **keywords,
      )

    def joined(one_BLD, other_BLD):
      return jnp.concatenate([one_BLD, jnp.flip(other_BLD, axis=1)], axis=-1)

    if array_B1LM is None:
      reversed_B1LM = None
    else:
      reversed_B1LM = jnp.flip(array_B1LM, axis=(2, 3))
    one_BLD, of_one = run(self.left_to_right, first_BLD, array_B1LM)
    other_BLD, of_other = run(
      self.right_to_left, jnp.flip(second_BLD, axis=1), reversed_B1LM
    )
    collected = None
    if collect is not None:
      collected = [joined(*each) for each in zip(of_one, of_other, strict=True)]
    return joined(one_BLD, other_BLD), collected


@gin.register
def both_ways(stack: Stack) -> BothWays:
  """Two stacks that read in both ways, with parameters of their own.

  Args:
    stack: The stack that each of them is, of causal layers that read no
      positions, as `LstmLayer`.
  """
  return BothWays(stack.clone(), stack.clone())
