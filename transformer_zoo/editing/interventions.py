"""Values inside a forward pass, read and replaced.

Linen's interception of method calls reaches every part by its path, which is
the path of its parameters: `decoder/layers_3/mlp/wo`. So a model is not
changed, and a run that trains computes nothing differently. Layers have to be
looped (`Stack.scan` False): scanned ones have one path together.
"""

from collections.abc import Callable, Collection, Mapping
import functools
from typing import Any

from flax import linen as nn
import jax

from transformer_zoo.errors import UserError
from transformer_zoo.peft import substitution

# An input or output of a part -> what takes its place.
Change = Callable[[jax.Array], jax.Array]


def cached(make: Callable) -> Callable:
  """Returns a function of a model that is called once for each.

  Two models are the same if they are one object: the heads of an encoder are a
  dictionary, which has no hash.

  Args:
    make: The function, of a model and of other arguments, which have hashes.
  """
  made = {}

  @functools.wraps(make)
  def call(model: nn.Module, *arguments):
    key = (id(model), *arguments)
    if key not in made:
      # The model is kept, so that its id stays its own.
      made[key] = model, make(model, *arguments)
    return made[key][1]

  return call


def looped(model: nn.Module) -> nn.Module:
  """Returns the model with layers that are looped, one path each."""

  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return part.clone(scan=False) if getattr(part, "scan", False) else part

  return substitution.rebuilt(model, rule)


def apply(
  model: nn.Module,
  params: Any,
  batch: Mapping[str, jax.Array],
  *,
  inputs_of: Collection[str] = (),
  outputs_of: Collection[str] = (),
  changes: Mapping[str, Change] | None = None,
  input_changes: Mapping[str, Change] | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Computes logits, and reads or replaces what parts compute on the way.

  Args:
    model: A model of looped layers.
    params: Its parameters.
    batch: The features of a batch.
    inputs_of: The paths of parts whose first argument is returned.
    outputs_of: The paths of parts whose output, as replaced, is returned.
    changes: The replacements of outputs by the paths of the parts.
    input_changes: Those of first arguments.

  Returns:
    The logits [B, L, V], and the values read by their paths. A path in
    `outputs_of` and `inputs_of` has the output.

  Raises:
    UserError: A path names no part that was called.
  """
  changes, input_changes = changes or {}, input_changes or {}
  read, called = {}, set()

  def intercept(call, arguments, keywords, context):
    if context.method_name != "__call__":
      return call(*arguments, **keywords)
    path = "/".join(context.module.path)
    called.add(path)
    if path in input_changes:
      arguments = (input_changes[path](arguments[0]), *arguments[1:])
    if path in inputs_of:
      read[path] = arguments[0]
    output = call(*arguments, **keywords)
    if path in changes:
      output = changes[path](output)
    if path in outputs_of:
      read[path] = output
    return output

  with nn.intercept_methods(intercept):
    hidden = model.apply({"params": params}, batch, method="hidden")
    logits = model.apply({"params": params}, hidden, method="logits")
  for path in (*inputs_of, *outputs_of, *changes, *input_changes):
    if path not in called:
      raise UserError(
        f"the model has no part {path!r}; `zoo inspect model` lists its parts"
      )
  return logits, read
