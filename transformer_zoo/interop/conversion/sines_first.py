"""Sinusoids that alternate, as the same model with all sines first.

The paper's positions are sine, cosine, sine, ... along d_model; most code has
all sines before all cosines (Marian, tensor2tensor). Nothing else in a model
distinguishes the numbers of d_model: normalizations, connections and
projections compute the same where all parameters have them in another order.
"""

from collections.abc import Mapping, Sequence

from flax import linen as nn
import numpy as np

from transformer_zoo.interop.conversion import converted_run
from transformer_zoo.interop.tensors.lazy_tensors import Tensor
from transformer_zoo.modules.positions.absolute import SinusoidalPositions
from transformer_zoo.peft import substitution

_AXIS = "embed"


def reordered(
  model: nn.Module, parameters: Mapping[str, Tensor]
) -> tuple[nn.Module, Mapping[str, Tensor]]:
  """Puts sines first where a model's sinusoids alternate.

  Args:
    model: any; one without such sinusoids is returned as it is.
    parameters: all of it, layers unstacked.

  Returns:
    A model that computes the same logits, and its parameters: d_model's even
    numbers, then the odd ones.
  """
  if _layouts(model) != {True}:
    return model, parameters
  changed = substitution.rebuilt(model, _with_sines_first)
  return changed, {
    name: _reordered(parameters[name], parameter.axes)
    for name, parameter in converted_run.parameters_of(model).items()
  }


def _layouts(model: nn.Module) -> set[bool]:
  """Values of `interleaved`; encoder and decoder may each have one."""
  found = set()

  def note(part: nn.Module) -> nn.Module:
    if isinstance(part, SinusoidalPositions):
      found.add(part.interleaved)
    return part

  substitution.rebuilt(model, note)
  return found


def _with_sines_first(part: nn.Module) -> nn.Module:
  if isinstance(part, SinusoidalPositions):
    return part.clone(interleaved=False)
  return part


def _reordered(tensor: Tensor, axes: Sequence[str | None]) -> Tensor:
  """The tensor with every axis of d_model in the other order."""

  def read():
    array = tensor.read()
    for axis, name in enumerate(axes):
      if name == _AXIS:
        waves = np.arange(0, array.shape[axis], 2)
        array = array.take(np.concatenate([waves, waves + 1]), axis)
    return array

  return Tensor(tensor.shape, tensor.dtype, read)
