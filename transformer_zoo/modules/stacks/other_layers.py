"""Stacks some of whose layers are other than the rest."""

from collections.abc import Callable, Sequence
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo.errors import UserError
from transformer_zoo.modules import parts
from transformer_zoo.modules.stack import Stack


class StackWithOtherLayers(Stack):
  """A `Stack` that is looped and whose layers share nothing.

  Attributes:
    other_layer: The layer in the places of others.
    places: The numbers of these layers.
  """

  other_layer: nn.Module | None = None
  places: tuple[int, ...] = (0,)

  def __post_init__(self):
    if self.scan or self.num_groups or self.shared:
      raise UserError(
        "layers of a stack that differ (with_first_layer, with_other_mlp, "
        "funnel_stack) are not scanned and share nothing; bind SCAN_LAYERS = "
        "False, Stack.num_groups = None and Stack.shared = ()"
      )
    super().__post_init__()

  @nn.nowrap
  def _layer_of(self, group: int, layer: nn.Module) -> Callable[..., Any]:
    is_other = group in self.places
    return super()._layer_of(group, self.other_layer if is_other else layer)


@gin.register
def with_first_layer(
  stack: Stack, first_layer: nn.Module
) -> StackWithOtherLayers:
  """A stack with another first layer.

  Args:
    stack: The stack, with the layer that is repeated after the first.
    first_layer: The first layer.
  """
  return parts.replaced(stack, StackWithOtherLayers, other_layer=first_layer)


@gin.register
def with_other_mlp(
  stack: Stack,
  mlp: nn.Module,
  *,
  every: int | None = None,
  places: Sequence[int] = (),
) -> Stack:
  """A stack some of whose layers have another feed-forward network.

  Args:
    stack: The stack.
    mlp: The feed-forward network of these layers.
    every: The distance between them: the last of each so many layers; of all
      layers, which may be scanned and share, it is 1.
    places: Their numbers otherwise; -1 is the last layer.
  """
  number = stack.num_layers
  if (every is None) == (not places) or (every is not None and every < 1):
    raise UserError(
      f"with_other_mlp.every is {every} and places are {tuple(places)}; give "
      "one of the two, a positive number or the numbers of layers"
    )
  if every is not None:
    places = range(every - 1, number, every)
  if not all(-number <= place < number for place in places):
    raise UserError(
      f"with_other_mlp.places are {tuple(places)}, but the stack has {number} "
      f"layers; choose from {-number} to {number - 1}"
    )
  other = stack.layer.clone(mlp=mlp)
  places = tuple(sorted({place % number for place in places}))
  if len(places) == number:
    return stack.clone(layer=other)
  return parts.replaced(
    stack, StackWithOtherLayers, other_layer=other, places=places
  )
