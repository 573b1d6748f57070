"""Names, shapes and axes of the parameters of a model, layers unstacked."""

import dataclasses

from flax import linen as nn

from transformer_zoo.parameter_names import Parameter
from transformer_zoo.training import state
from transformer_zoo.training.sharding import placement


def parameters_of(model: nn.Module) -> dict[str, Parameter]:
  """The parameters of a model by name, layers unstacked."""
  # One layer of each stack is traced so, and not all of them.
  return placement.parameters_of(state.abstract_variables(_scanned(model)))


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
  """Shapes of the parameters of a model, layers unstacked."""
  return {
    name: tuple(parameter.shape)
    for name, parameter in parameters_of(model).items()
  }


def _scanned(part: nn.Module) -> nn.Module:
  """The same part with scanned stacks in it, where all layers are alike."""
  fields = {
    field.name: getattr(part, field.name)
    for field in dataclasses.fields(part)
    if field.name != "parent"
  }
  changes = {
    name: _scanned(value)
    for name, value in fields.items()
    if isinstance(value, nn.Module)
  }
  if "scan" in fields and "other_layer" not in fields:
    changes["scan"] = True
  return part.clone(**changes)
