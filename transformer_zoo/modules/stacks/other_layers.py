"""Stacks some of whose layers are other than the rest."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError
from transformer_zoo.modules import parts
from transformer_zoo.modules.stack import Stack


class StackWithOtherLayers(Stack):
  """A `Stack` whose layers are of two kinds and share nothing.

  It is scanned where they alternate, a period of them at a time: parameters of
  layers j, j + P, j + 2 P, ... lie under `layers/every_P_from_j` then.

  Attributes:
    other_layer: The layer in the places of others.
    places: The numbers of these layers.
    period: The number of layers after which the kinds are repeated; None if
      they are not.
  """

  other_layer: nn.Module | None = None
  places: tuple[int, ...] = (0,)
  period: int | None = None

  def __post_init__(self):
    scans_apart = self.scan and self.period is None
    if scans_apart or self.num_groups or self.shared:
      raise UserError(
        "layers of a stack that differ (with_first_layer, with_other_mlp, "
        "funnel_stack) are scanned only if with_other_mlp.every divides their "
        "number, and share nothing; bind SCAN_LAYERS = False, "
        "Stack.num_groups = None and Stack.shared = ()"
      )
    super().__post_init__()

  @nn.nowrap
  def _layer_of(self, group: int, layer: nn.Module) -> Callable[..., Any]:
    if self.scan:
      return self._scanned_layer(group, layer)
    return super()._layer_of(group, self._kind(group, layer))

  @nn.nowrap
  def _kind(self, number: int, layer: nn.Module) -> nn.Module:
    return self.other_layer if number in self.places else layer

  @nn.nowrap
  def _scan(self, apply_layer, layer, x, own_N, given):
    """Scans over periods and loops over the layers of each."""
    size = self.period
    kinds = [self._kind(number, layer) for number in range(size)]
    own_PS = jax.tree.map(
      lambda x_N: x_N.reshape(-1, size, *x_N.shape[1:]), own_N
    )

    def apply_period(period, x, own_S, arguments, keywords):
      return period(apply_layer, x, own_S, arguments, keywords)

    scanned = self._scanned(apply_period, self.num_layers // size)
    period = _Period(tuple(kinds), name="layers")
    x, collected_PS = scanned(period, x, own_PS, *given)
    return x, jax.tree.map(
      lambda x_PS: x_PS.reshape(-1, *x_PS.shape[2:]), collected_PS
    )

  @nn.nowrap
  def _scanned_layer(self, group: int, layer: nn.Module):
    """Returns one of the scanned copies of a layer, a function."""
    turn, number = divmod(group, self.period)
    name = parameter_names.of_every(self.period, number)
    layers = nn.unbox(self.variables["params"]["layers"][name])
    return self._copy_of(layers, turn, self._kind(group, layer))


class _Period(nn.Module):
  """Layers that are applied one after the other, and again with others.

  Attributes:
    layers: The layers.
  """

  layers: tuple[nn.Module, ...]

  @nn.compact
  def __call__(self, apply_layer, x, own_S, arguments, keywords):
    collected = []
    for number, layer in enumerate(self.layers):
      layer = layer.copy(
        name=parameter_names.of_every(len(self.layers), number)
      )
      own = jax.tree.map(lambda x_S: x_S[number], own_S)  # noqa: B023
      x, found = apply_layer(layer, x, own, arguments, keywords)
      collected.append(found)
    return x, jax.tree.map(lambda *found: jnp.stack(found), *collected)


def with_layers(
  stack: Stack, change: Callable[[nn.Module], nn.Module]
) -> Stack:
  """Returns a stack with other layers in the places of all of its layers.

  Args:
    stack: The stack.
    change: Returns what takes the place of a layer.
  """
  fields = ("layer", "other_layer")
  found = {name: getattr(stack, name, None) for name in fields}
  return stack.clone(
    **{name: change(layer) for name, layer in found.items() if layer}
  )


def refuse_between_layers(name: str, keywords: Mapping[str, Any]) -> None:
  """Raises UserError for a state that is read or written between layers.

  Args:
    name: What does not go with it.
    keywords: The keyword arguments of the stack.
  """
  for keyword in ("after_layer", "order"):
    if keywords.get(keyword) is not None:
      raise UserError(
        f"{name} does not go with an operation between layers or with layers "
        "that are applied again, as a DeBERTa with a convolution or a mask "
        "decoder has; leave one of the two out"
      )


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
    every: The distance between them: the last of each so many layers. They
      may be scanned if it divides their number; of all layers it is 1, and
      they may share parameters.
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
    stack,
    StackWithOtherLayers,
    other_layer=other,
    places=places,
    period=None if every is None or number % every else every,
  )
