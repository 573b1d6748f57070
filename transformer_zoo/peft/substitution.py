"""Parts in the place of parts: how a fine-tuning method reaches a model.

A method is a rule and never another model file: `substitute(model, rules)`
builds the tree of parts again, and what a rule leaves alone keeps its fields.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.modules import parts
from transformer_zoo.peft.method import Rule

# (name, part) -> the part that takes its place, or the part itself.
Replace = Callable[[str, nn.Module], nn.Module]

# Fields whose parts have their parameters under another name, or directly under
# the parent's name.
_RENAMED = {"layer": "layers", "other_layer": "layers"}
_WITHOUT_NAME = frozenset(
  {"discriminator", "head", "layer_stack", "parts", "softmax", "transformer"}
)


class Substitute:
  """Marks a class of parts that take the place of others.

  Such a class inherits from the class of the part that it replaces, so that the
  part's parameters keep their names, and adds fields, with `kw_only=True`.
  """

  @nn.nowrap
  def merge(
    self, leaves: Mapping[str, Any]
  ) -> tuple[nn.Module, dict[str, Any]]:
    """Returns the part before the substitution, with parameters to match.

    Args:
      leaves: The parameters of the part by name, which may be stacked along
        their first axis.

    Raises:
      UserError: No parameters make the part before compute the same.
    """
    del leaves
    raise UserError(
      f"{type(self).__name__} cannot be merged: it computes what no parameters "
      "of the part before compute; keep base and method apart"
    )

  @nn.nowrap
  def unmerge(
    self, leaves: Mapping[str, Any], added: Mapping[str, Any]
  ) -> dict[str, Any]:
    """Returns the parameters of the part, of those that `merge` returned.

    Args:
      leaves: The parameters that `merge` has returned.
      added: Those that the substitution has added, by name.

    Raises:
      UserError: They cannot be distinguished from what is merged.
    """
    del leaves, added
    raise UserError(
      f"{type(self).__name__} cannot be unmerged: it cannot be merged either; "
      "keep base and method apart"
    )


@gin.register
def substitute(
  model: nn.Module,
  rules: Sequence[Replace] = (),
  base: Replace | None = None,
) -> nn.Module:
  """Builds a model again with other parts.

  Args:
    model: a tree of parts; it stays as it is.
    rules: applied in their order, each to all parts, inner ones first; rules of
      methods (`method.Rule`) or functions.
    base: The rule that is applied before the others, to the parts of the base
      alone (`rounded.rounded`); None for none.

  Raises:
    UserError: a rule finds nothing to replace, and has to find something.
  """
  for rule in (*([base] if base else ()), *rules):
    changed = rebuilt(model, rule)
    if changed == model and not _may_find_nothing(rule):
      raise UserError(
        f"substitute: {_name(rule)} finds no part to replace in the model, "
        f"{type(model).__name__}{_unmatched(rule, model)}"
      )
    model = changed
  return model


def _may_find_nothing(rule: Replace) -> bool:
  if not isinstance(rule, Rule):
    return False
  return rule.method.may_find_nothing or not rule.method.parts


def _name(rule: Replace) -> str:
  if isinstance(rule, Rule):
    return rule.method.name
  return rule.__qualname__.partition(".")[0]


def _unmatched(rule: Replace, model: nn.Module) -> str:
  """The end of the error on a rule whose expressions match nothing."""
  expressions = rule.names if isinstance(rule, Rule) else ()
  names = [name for name, _ in named_parts(model)]
  return "".join(
    f"; {expression!r} matches (as a whole) none{nearest(expression, names)}"
    for expression in expressions
  )


def extended(
  part: nn.Module, extension: type[Substitute], **added: Any
) -> nn.Module:
  """Returns a part of a class that inherits from an extension and its own.

  Args:
    part: The part.
    extension: A class of parts whose methods call the methods of `super()`.
    **added: The fields of the extension.

  Raises:
    UserError: The part has been extended in this way before.
  """
  if isinstance(part, extension):
    raise UserError(
      f"substitute: a rule extends {type(part).__name__} by "
      f"{extension.__name__} a second time; name the method once, or choose "
      "other projections for the second one"
    )
  return parts.extended(part, extension, **added)


def unextended(part: nn.Module) -> nn.Module:
  """Returns a part as it was before its last extension."""
  kind = type(part).__bases__[-1]
  names = {field.name for field in dataclasses.fields(kind)}
  fields = {n: v for n, v in parts.fields_of(part).items() if n in names}
  return kind(**fields, name=part.name)


def taken_apart(
  part: nn.Module,
) -> tuple[nn.Module, list[Callable[[nn.Module], nn.Module]]]:
  """Returns a part before all of its extensions, and each of these.

  The extensions are functions from a part to the extended one, in the order in
  which they were made.
  """
  extensions = []
  while isinstance(part, Substitute):
    before = unextended(part)
    names = parts.fields_of(part).keys() - parts.fields_of(before).keys()
    added = {name: getattr(part, name) for name in names}
    extension = type(part).__bases__[0]
    extensions.append(functools.partial(extended, extension=extension, **added))
    part = before
  return part, extensions[::-1]


def rebuilt(model: nn.Module, rule: Replace) -> nn.Module:
  """Builds a model again, each part as a rule has it, inner ones first.

  A rule is given the name of a part as in the paths of its parameters, with
  `layers` for all layers of a stack: `encoder/layers/attention/query`.
  """
  return _rebuilt(model, rule, {}, "")


def original(model: nn.Module) -> nn.Module:
  """Returns a model as it was before substitutions."""
  return rebuilt(model, _original)


def named_parts(model: nn.Module) -> list[tuple[str, nn.Module]]:
  """Returns the parts of a model and their names, inner ones first.

  A part in two places has the name of the first.
  """
  found = []

  def note(name: str, part: nn.Module) -> nn.Module:
    found.append((name, part))
    return part

  rebuilt(model, note)
  return found


def extensions(model: nn.Module) -> set[type[Substitute]]:
  """Returns the classes by which parts of a model are extended."""
  found = set()
  for _, part in named_parts(model):
    while isinstance(part, Substitute):
      found.add(type(part).__bases__[0])
      part = unextended(part)
  return found


def substitutes(model: nn.Module) -> list[str]:
  """Returns the kinds of parts that have taken the place of others."""
  return sorted(
    {
      type(part).__name__
      for _, part in named_parts(model)
      if isinstance(part, Substitute)
    }
  )


def _original(name: str, part: nn.Module) -> nn.Module:
  del name
  while isinstance(part, Substitute):
    part = unextended(part)
  return part


def _rebuilt(
  value: Any, rule: Replace, done: dict[int, nn.Module], name: str
) -> Any:
  """A field's value with its parts replaced.

  Args:
    value: a part, several of them, or anything else.
    rule: says what replaces a part.
    done: id of a part -> what has replaced it. One part in two places has the
      same parameters there, and keeps them together.
    name: The name of the parts.
  """
  if isinstance(value, Mapping):
    return {
      key: _rebuilt(item, rule, done, _joined(name, str(key)))
      for key, item in value.items()
    }
  if isinstance(value, list | tuple):
    return type(value)(_rebuilt(item, rule, done, name) for item in value)
  if not isinstance(value, nn.Module):
    return value
  if id(value) not in done:
    fields = {
      field: _rebuilt(inner, rule, done, _joined(name, field))
      for field, inner in parts.fields_of(value).items()
    }
    done[id(value)] = rule(name, value.clone(**fields))
  return done[id(value)]


def _joined(parent: str, field: str) -> str:
  """The name of the parts in a field."""
  if field in _WITHOUT_NAME:
    return parent
  field = _RENAMED.get(field, field)
  return f"{parent}/{field}" if parent else field
