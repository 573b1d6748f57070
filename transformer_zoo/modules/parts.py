"""Default parts, and parts that are made of others."""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

from flax import linen as nn


def part(module: Callable[..., nn.Module], **settings):
  """A field whose default is a part of its own for every parent.

  A default instance would be one object in every parent, and Linen shares the
  parameters of one object.
  """
  return dataclasses.field(
    default_factory=functools.partial(module, **settings)
  )


def fields_of(module: nn.Module) -> dict[str, Any]:
  """Returns the fields of a part, without Linen's own."""
  return {
    field.name: getattr(module, field.name)
    for field in dataclasses.fields(module)
    if field.init and field.name not in ("parent", "name")
  }


def replaced(
  module: nn.Module, kind: type[nn.Module], **added: Any
) -> nn.Module:
  """Returns a part of another kind with all fields of this one.

  Args:
    module: the part.
    kind: has all of its fields.
    **added: fields that only `kind` has, and those that change.
  """
  return kind(**(fields_of(module) | added), name=module.name)


def extended(module: nn.Module, extension: type, **added: Any) -> nn.Module:
  """Returns a part of a class that inherits from an extension and its own.

  Args:
    module: The part.
    extension: A class whose methods call the methods of `super()`.
    **added: The fields of the extension.
  """
  return replaced(module, _extended_kind(extension, type(module)), **added)


@functools.cache
def _extended_kind(extension: type, kind: type) -> type:
  """The class of the parts of a kind that are extended."""
  name = f"{extension.__name__}{kind.__name__}"
  return type(name, (extension, kind), {"__doc__": extension.__doc__})
