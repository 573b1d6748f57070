"""A stack whose first layer is another than those that follow."""

from collections.abc import Callable
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo.errors import UserError
from transformer_zoo.modules import parts
from transformer_zoo.modules.stack import Stack


class StackWithFirstLayer(Stack):
  """A `Stack` that is looped and whose layers share nothing.

  Attributes:
    first_layer: The first layer.
  """

  first_layer: nn.Module | None = None

  def __post_init__(self):
    if self.scan or self.num_groups or self.shared:
      raise UserError(
        "with_first_layer.first_layer differs from the others, which are not "
        "scanned and share nothing; bind SCAN_LAYERS = False, Stack.num_groups "
        "= None and Stack.shared = ()"
      )
    super().__post_init__()

  @nn.nowrap
  def _layer_of(self, group: int, layer: nn.Module) -> Callable[..., Any]:
    first = group == 0
    return super()._layer_of(group, self.first_layer if first else layer)


@gin.register
def with_first_layer(
  stack: Stack, first_layer: nn.Module
) -> StackWithFirstLayer:
  """A stack with another first layer.

  Args:
    stack: The stack, with the layer that is repeated after the first.
    first_layer: The first layer.
  """
  return parts.replaced(stack, StackWithFirstLayer, first_layer=first_layer)
