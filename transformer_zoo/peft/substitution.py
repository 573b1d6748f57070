"""Parts in the place of parts: how a fine-tuning method reaches a model.

A method is a rule and never another model file: `substitute(model, rules)`
rebuilds the tree of parts, and what a rule leaves alone keeps all its fields.
What a rule puts in is a `Substitute`, whose parameters lie beside those of the
part that was there, so that no parameter of the base changes its name.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import gin

# A part -> the one that takes its place; itself where it stays.
Rule = Callable[[nn.Module], nn.Module]


class Substitute(nn.Module):
  """A part that has taken the place of another.

  Attributes:
    base: the part that was there. Its parameters keep their names.
  """

  base: nn.Module

  def setup(self):
    nn.share_scope(self, self.base)


@gin.register
def substitute(model: nn.Module, rules: Sequence[Rule]) -> nn.Module:
  """Builds a model again with other parts.

  Args:
    model: a tree of parts; it stays as it is.
    rules: applied in their order, each to all parts, inner ones first.
  """
  for rule in rules:
    model = _rebuilt(model, rule, {})
  return model


def original(model: nn.Module) -> nn.Module:
  """Returns a model as it was before all substitutions."""
  return substitute(model, [_base])


def substitutes(model: nn.Module) -> list[str]:
  """Returns the kinds of substitutes in a model, by name."""
  found = set()

  def note(part):
    if isinstance(part, Substitute):
      found.add(type(part).__name__)
    return part

  substitute(model, [note])
  return sorted(found)


def _base(part: nn.Module) -> nn.Module:
  return part.base if isinstance(part, Substitute) else part


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
    done[id(value)] = rule(_with_parts(value, rule, done))
  return done[id(value)]


def _with_parts(part: nn.Module, rule: Rule, done) -> nn.Module:
  """The one helper that copies a part: all fields, its own parts replaced."""
  fields = {
    field.name: getattr(part, field.name)
    for field in dataclasses.fields(part)
    if field.init and field.name not in ("parent", "name")
  }
  replaced = {n: _rebuilt(v, rule, done) for n, v in fields.items()}
  changed = {n: v for n, v in replaced.items() if v is not fields[n]}
  return part.clone(**changed) if changed else part
