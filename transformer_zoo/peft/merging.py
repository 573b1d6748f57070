"""Methods merged into their base, and taken out again.

A merged model is the base's own with other parameters: it costs nothing, and
goes wherever the base goes. LoRA, DoRA, IA3 and biases can be merged; adapters
and prompts cannot.
"""

from collections.abc import Callable, Mapping
import re
from typing import Any

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np

from transformer_zoo.peft import substitution
from transformer_zoo.peft.substitution import Substitute


def merged(
  model: nn.Module, params: Mapping[str, Any]
) -> tuple[nn.Module, dict[str, Any]]:
  """Merges all methods of a model into its base.

  Args:
    model: A model with substitutions.
    params: Its parameters, scanned or not.

  Returns:
    The model without substitutions, and its parameters as numpy arrays.

  Raises:
    UserError: A method cannot be merged.
  """
  leaves = traverse_util.flatten_dict(jax.device_get(params), sep="/")
  model, leaves = merge_leaves(model, leaves)
  return model, traverse_util.unflatten_dict(leaves, sep="/")


def merge_leaves(
  model: nn.Module,
  leaves: Mapping[str, Any],
  load: Callable[[Any], np.ndarray] = np.asarray,
) -> tuple[nn.Module, dict[str, Any]]:
  """As `merged`, of parameters by their paths.

  Args:
    model: A model with substitutions.
    leaves: Its parameters; those that do not change are returned as they are.
    load: The function that reads one that changes.
  """
  leaves = dict(leaves)

  def rule(name: str, part: nn.Module) -> nn.Module:
    # The first is merged first: a later one acts on what it computes.
    part, extensions = substitution.taken_apart(part)
    for extend in extensions:
      before = extend(part)
      part = None
      for prefix in _prefixes(name, leaves):
        own = {n: load(x) for n, x in _taken(leaves, prefix).items()}
        part, own = before.merge(own)
        leaves.update({f"{prefix}/{key}": leaf for key, leaf in own.items()})
      if part is None:  # It has no parameters, and refuses.
        part, _ = before.merge({})
    return part

  return substitution.rebuilt(model, rule), leaves


def unmerged(
  model: nn.Module, params: Mapping[str, Any], added: Mapping[str, Any]
) -> dict[str, Any]:
  """Takes methods out of merged parameters.

  Args:
    model: The model with substitutions.
    params: The parameters that `merged` returned.
    added: The parameters of the methods, by the same paths as in the model.

  Returns:
    The parameters of the model with substitutions, the base's up to rounding.

  Raises:
    UserError: A method cannot be taken out.
  """
  leaves = traverse_util.flatten_dict(jax.device_get(params), sep="/")
  others = traverse_util.flatten_dict(jax.device_get(added), sep="/")
  for name, part in substitution.named_parts(model):
    if isinstance(part, Substitute):
      for prefix in _prefixes(name, leaves):
        own, added = _taken(leaves, prefix), _taken(others, prefix)
        step = part
        while isinstance(step, Substitute):  # The last is taken out first.
          own = step.unmerge(own, added)
          step = substitution.unextended(step)
        leaves.update({f"{prefix}/{key}": leaf for key, leaf in own.items()})
  return traverse_util.unflatten_dict(leaves, sep="/")


def _prefixes(name: str, leaves: Mapping[str, np.ndarray]) -> list[str]:
  """The paths of the copies of a part: one, or one for each looped layer.

  Parts that all layers share lie beside the layers.
  """
  expression = re.compile(
    re.escape(name).replace(
      "layers/", r"(?:layers(?:_\d+|/every_\d+_from_\d+)?/)?"
    )
  )
  found = {path.rpartition("/")[0] for path in leaves}
  return sorted(path for path in found if expression.fullmatch(path))


def _taken(leaves: dict[str, Any], prefix: str) -> dict[str, Any]:
  """The leaves of a part by name, which are removed."""
  names = [path for path in leaves if path.rpartition("/")[0] == prefix]
  return {path.removeprefix(f"{prefix}/"): leaves.pop(path) for path in names}
