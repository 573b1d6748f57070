"""A stack that is applied again and again: the Universal Transformer."""

from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import costs
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.stack import refuse_with_stages
from transformer_zoo.modules.stack import Stack


class UniversalStack(nn.Module):
  """Layers that are applied again until each token halts.

  Dehghani et al. 2019, section 2.2, with adaptive computation time (Graves
  2016). As in Mesh TensorFlow, which Narang et al. 2021 ran, the output of a
  token is moved at each step towards its state by the probability of halting
  there, and by what is left of it where the token halts; the states of tokens
  that have halted go on, for others to see. The layers are applied `max_steps`
  + 1 times, the last time without a vector of its own, and positions are not
  added anew at each step. Mesh TensorFlow has no ponder cost.

  Attributes:
    block: The layers of a step.
    max_steps: The largest number of steps but for the last.
    threshold: The probability of having halted from which a token has.
    ponder_weight: The factor of the ponder cost in the loss: the steps and the
      remainder of a token, the mean over the tokens of a row.
    halting: From a state to the logit of the probability of halting.
  """

  block: Stack
  max_steps: int
  threshold: float
  ponder_weight: float
  halting: nn.Module

  def __post_init__(self):
    if self.max_steps < 1:
      raise UserError(
        f"universal_stack.max_steps is {self.max_steps}; it must be at least 1"
      )
    if not 0 < self.threshold < 1:
      raise UserError(
        f"universal_stack.threshold is {self.threshold}, and no probability "
        "between 0 and 1"
      )
    if self.ponder_weight < 0:
      raise UserError(
        f"universal_stack.ponder_weight is {self.ponder_weight}; a cost must "
        "not be negative"
      )
    super().__post_init__()

  @property
  def num_layers(self) -> int:
    """The number of layers of a step."""
    return self.block.num_layers

  def setup(self):
    nn.share_scope(self, self.block)

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *arguments: Any,
    mask_B1LM: jax.Array | masks.Mask | None = None,
    collect: Any = None,
    deterministic: bool = True,
    **keywords: Any,
  ) -> tuple[jax.Array, None]:
    """Applies the layers until each token has halted.

    Args:
      x_BLD: What the first layer of the first step reads.
      *arguments: As of `Stack`.
      mask_B1LM: As of a layer.
      collect: As of `Stack`; refused.
      deterministic: no dropout.
      **keywords: As of `Stack`.

    Returns:
      [B, L, D], and None.

    Raises:
      UserError: The states of all layers are asked for.
    """
    refuse_with_stages({"a Universal Transformer": True})
    if collect is not None:
      raise UserError(
        "a Universal Transformer applies its layers several times, so there is "
        "no mix of the states of its layers; bind Transformer.mix = None"
      )
    width, dtype = x_BLD.shape[-1], x_BLD.dtype
    vectors_TD = self.param(
      "step_embedding",
      axes.partitioned(nn.initializers.normal(width**-0.5), None, "embed"),
      (self.max_steps, width),
      jnp.float32,
    )
    vectors_T11D = jnp.pad(vectors_TD * width**0.5, ((0, 1), (0, 0)))
    vectors_T11D = vectors_T11D[:, None, None].astype(dtype)

    def step(self, carry, vector_11D):
      state_BLD, halted_BL, remainder_BL, steps_BL, output_BLD = carry
      state_BLD = state_BLD + vector_11D
      logit_BL = self.halting(state_BLD, 1)[..., 0]
      chance_BL = jax.nn.sigmoid(logit_BL.astype(jnp.float32))
      runs_BL = halted_BL < 1
      stops_BL = runs_BL & (halted_BL + chance_BL > self.threshold)
      goes_on_BL = runs_BL & ~stops_BL
      rest_BL = jnp.where(stops_BL, 1 - halted_BL, 0)
      moved_BL = jnp.where(goes_on_BL, chance_BL, rest_BL)
      state_BLD, _ = self.block(
        state_BLD,
        *arguments,
        mask_B1LM=mask_B1LM,
        deterministic=deterministic,
        **keywords,
      )
      moved_BL1 = moved_BL[..., None].astype(dtype)
      output_BLD = state_BLD * moved_BL1 + output_BLD * (1 - moved_BL1)
      carry = (
        state_BLD,
        halted_BL + moved_BL,
        remainder_BL + rest_BL,
        steps_BL + runs_BL,
        output_BLD,
      )
      return carry, None

    zeros_BL = jnp.zeros(x_BLD.shape[:2], jnp.float32)
    first = x_BLD, zeros_BL, zeros_BL, zeros_BL, jnp.zeros_like(x_BLD)
    (_, _, remainder_BL, steps_BL, output_BLD), _ = nn.scan(
      step,
      variable_broadcast="params",
      variable_axes={"cache": 0, costs.COLLECTION: 0},
      split_rngs={"params": False, "dropout": True},
    )(self, first, vectors_T11D)
    weights_BL = _means(masks.tokens(mask_B1LM), steps_BL.shape)
    ponder_B = jnp.sum((steps_BL + remainder_BL) * weights_BL, axis=1)
    costs.add(
      self,
      "ponder",
      self.ponder_weight * ponder_B,
      deterministic=deterministic,
      steps=jnp.sum(steps_BL * weights_BL, axis=1),
    )
    return output_BLD, None


@gin.register
def universal_stack(
  stack: Stack,
  halting: nn.Module,
  *,
  max_steps: int = 24,
  threshold: float = 0.5,
  ponder_weight: float = 0.01,
) -> UniversalStack:
  """A stack that is applied until each token halts.

  Args:
    stack: As `UniversalStack.block`.
    halting: As of `UniversalStack`.
    max_steps: As of `UniversalStack`.
    threshold: As of `UniversalStack`.
    ponder_weight: As of `UniversalStack`.
  """
  return UniversalStack(stack, max_steps, threshold, ponder_weight, halting)


def _means(valid_BL: jax.Array | None, shape: tuple[int, ...]) -> jax.Array:
  """The weights of the tokens of each row in their mean, [B, L]."""
  valid_BL = jnp.ones(shape) if valid_BL is None else valid_BL
  valid_BL = jnp.broadcast_to(valid_BL, shape).astype(jnp.float32)
  return valid_BL / jnp.maximum(jnp.sum(valid_BL, axis=1, keepdims=True), 1)
