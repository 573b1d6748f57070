"""Types of gin values, compared with the annotations of parameters.

gin itself lets `num_heads = '2'` pass, and the run fails much later.
"""

import collections.abc
import dataclasses
import inspect
import types
import typing
from typing import Any

from gin import config as gin_config

from transformer_zoo.config import registry

_SIMPLE = {
  bool: (bool,),
  int: (int,),
  float: (int, float),
  str: (str,),
}


def accepts(value: Any, annotation: Any) -> bool:
  """Returns whether `value` may stand where `annotation` is asked for.

  An annotation that is no plain type, and the result of a function without a
  return annotation, are accepted.

  Args:
    value: The parsed value, with macros replaced by their values.
    annotation: The annotation, as `registry.parameters` returns it.
  """
  if annotation is Any or isinstance(annotation, str | typing.TypeVar):
    return True
  origin = typing.get_origin(annotation)
  arguments = typing.get_args(annotation)
  if origin is typing.Annotated:
    return accepts(value, arguments[0])
  if origin in (typing.Union, types.UnionType):
    return any(accepts(value, choice) for choice in arguments)
  if origin is typing.Literal:
    return value in arguments
  if annotation is None or annotation is types.NoneType:
    return value is None
  if isinstance(value, gin_config.ConfigurableReference):
    return _accepts_reference(value, annotation, origin or annotation)
  if annotation in _SIMPLE:
    if isinstance(value, bool) and annotation is not bool:
      return False
    return isinstance(value, _SIMPLE[annotation])
  if _is_callable(origin or annotation):
    return False
  if origin in (tuple, list, dict) or origin in _ABSTRACT:
    return _accepts_container(value, origin, arguments)
  if annotation in (tuple, list, dict):
    return isinstance(value, annotation)
  if _is_part(annotation):
    return False
  return value is not None or not inspect.isclass(annotation)


_ABSTRACT = (
  collections.abc.Sequence,
  collections.abc.Iterable,
  collections.abc.Collection,
  collections.abc.Mapping,
)


def describe(annotation: Any) -> str:
  """The annotation as a user reads it: `int`, `tuple[int, ...] or None`."""
  origin = typing.get_origin(annotation)
  if origin is typing.Annotated:
    return describe(typing.get_args(annotation)[0])
  if origin in (typing.Union, types.UnionType):
    return " or ".join(map(describe, typing.get_args(annotation)))
  if annotation is types.NoneType:
    return "None"
  if _is_callable(origin or annotation):
    return "a function (@name)"
  if origin is typing.Literal:
    return " or ".join(map(repr, typing.get_args(annotation)))
  if origin is None and inspect.isclass(annotation):
    if _is_part(annotation):
      return f"a {annotation.__name__} (@name())"
    return annotation.__name__
  return str(annotation).replace("typing.", "").replace("collections.abc.", "")


def describe_value(value: Any) -> str:
  """The value with its type, as in `'2', a str`."""
  if value is None or isinstance(value, gin_config.ConfigurableReference):
    return repr(value)
  kind = type(value).__name__
  return f"{value!r}, {'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _is_callable(annotation: Any) -> bool:
  return annotation in (collections.abc.Callable, typing.Callable)


def _is_part(annotation: Any) -> bool:
  """Whether it is a class that gin builds: a dataclass or a Flax module."""
  return inspect.isclass(annotation) and (
    dataclasses.is_dataclass(annotation) or registry.is_linen(annotation)
  )


def _accepts_reference(
  reference: gin_config.ConfigurableReference, annotation: Any, kind: Any
) -> bool:
  """Judges `@name` (the function or class) and `@name()` (what it gives)."""
  if not reference.evaluate:
    return not (
      kind in _SIMPLE or kind in (tuple, list, dict) or _is_part(kind)
    )
  given = registry.result_type(reference.configurable)
  if typing.get_origin(given) in (typing.Union, types.UnionType):
    return True
  given = typing.get_origin(given) or given
  if not inspect.isclass(given) or given is Any:
    return True
  if kind in _SIMPLE:
    return issubclass(given, _SIMPLE[kind])
  if kind in (tuple, list, dict) or _is_part(kind):
    return issubclass(given, kind)
  return not (_is_callable(kind) and registry.is_linen(given))


def _accepts_container(value: Any, origin: Any, arguments: tuple) -> bool:
  if origin in (dict, collections.abc.Mapping):
    return isinstance(value, dict) and all(
      accepts(key, arguments[0]) and accepts(item, arguments[1])
      for key, item in value.items()
    )
  if not isinstance(value, origin if origin in (tuple, list) else list | tuple):
    return False
  if origin is tuple and arguments[-1] is not Ellipsis:
    return len(value) == len(arguments) and all(map(accepts, value, arguments))
  return all(accepts(item, arguments[0]) for item in value)
