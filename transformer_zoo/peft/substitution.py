"""Parts in the place of parts: how a fine-tuning method reaches a model.

A method is a rule and never another model file: `substitute(model, rules)`
builds the tree of parts again, and what a rule leaves alone keeps its fields.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo.errors import UserError

# A part -> the one that takes its place; itself where it stays.
Rule = Callable[[nn.Module], nn.Module]


class Substitute:
  """Marks a class of parts that take the place of others.

  Such a class inherits from that of the part that it replaces, so that the
  part's parameters keep their names, and adds fields, with `kw_only=True`.
  """


@gin.register
def substitute(model: nn.Module, rules: Sequence[Rule]) -> nn.Module:
  """Builds a model again with other parts.

  Args:
    model: a tree of parts; it stays as it is.
    rules: applied in their order, each to all parts, inner ones first.

  Raises:
    UserError: a rule finds nothing to replace.
  """
  for rule in rules:
    changed = rebuilt(model, rule)
    if changed == model:
      name = rule.__qualname__.partition(".")[0]
      raise UserError(
        f"substitute: {name} finds no part to replace in the model, "
        f"{type(model).__name__}"
      )
    model = changed
  return model


def replaced(part: nn.Module, kind: type[nn.Module], **added: Any) -> nn.Module:
  """Returns a part of another kind with all fields of this one.

  Args:
    part: the part.
    kind: has all of its fields.
    **added: fields that only `kind` has, and those that change.
  """
  return kind(**(_fields(part) | added), name=part.name)


def rebuilt(model: nn.Module, rule: Rule) -> nn.Module:
  """Builds a model again, each part as a rule has it, inner ones first."""
  return _rebuilt(model, rule, {})


def original(model: nn.Module) -> nn.Module:
  """Returns a model as it was before substitutions."""
  return rebuilt(model, _original)


def substitutes(model: nn.Module) -> list[str]:
  """Returns the kinds of parts that have taken the place of others."""
  found = set()

  def note(part: nn.Module) -> nn.Module:
    if isinstance(part, Substitute):
      found.add(type(part).__name__)
    return part

  rebuilt(model, note)
  return sorted(found)


def _original(part: nn.Module) -> nn.Module:
  if not isinstance(part, Substitute):
    return part
  kind = next(
    base
    for base in type(part).__mro__
    if issubclass(base, nn.Module) and not issubclass(base, Substitute)
  )
  names = {field.name for field in dataclasses.fields(kind)}
  fields = {n: v for n, v in _fields(part).items() if n in names}
  return kind(**fields, name=part.name)


def _rebuilt(value: Any, rule: Rule, done: dict[int, nn.Module]) -> Any:
  """A field's value with its parts replaced.

  Args:
    value: a part, several of them, or anything else.
    rule: says what replaces a part.
    done: id of a part -> what has replaced it. One part in two places has the
      same parameters there, and keeps them together.
  """
  if isinstance(value, Mapping):
    return {key: _rebuilt(item, rule, done) for key, item in value.items()}
  if isinstance(value, list | tuple):
    return type(value)(_rebuilt(item, rule, done) for item in value)
  if not isinstance(value, nn.Module):
    return value
  if id(value) not in done:
    fields = {n: _rebuilt(v, rule, done) for n, v in _fields(value).items()}
    done[id(value)] = rule(value.clone(**fields))
  return done[id(value)]


def _fields(part: nn.Module) -> dict[str, Any]:
  """What a part was made of, Linen's own fields left out."""
  return {
    field.name: getattr(part, field.name)
    for field in dataclasses.fields(part)
    if field.init and field.name not in ("parent", "name")
  }
