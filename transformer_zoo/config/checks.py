"""Checks of a configuration before it runs, one sentence for each mistake.

The types of values are compared with the annotations of parameters: gin itself
lets `num_heads = '2'` pass, and the run fails much later.
"""

import collections.abc
from collections.abc import Container, Iterable
import dataclasses
import inspect
import types
import typing
from typing import Any

from gin import config as gin_config

from transformer_zoo.config import registry
from transformer_zoo.config.reached_bindings import is_macro
from transformer_zoo.config.reached_bindings import is_required
from transformer_zoo.config.reached_bindings import ReachedBindings
from transformer_zoo.config.reached_bindings import Visit
from transformer_zoo.config.reading import Binding
from transformer_zoo.config.reading import MACRO
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# The least sizes of every model; modules would fail on others less clearly.
_LEAST_SIZES = {
  **dict.fromkeys(("VOCAB_SIZE", "EMBED_DIM", "MLP_DIM", "ADAPTER_DIM"), 1),
  **dict.fromkeys(("NUM_HEADS", "NUM_KV_HEADS", "HEAD_DIM"), 1),
  **dict.fromkeys(("MAX_POSITIONS", "FACTORIZED_DIM"), 1),
  **dict.fromkeys(("MLP_MATRICES", "MLP_MULTIPLE_OF"), 1),
  **dict.fromkeys(("NUM_ENCODER_LAYERS", "NUM_DECODER_LAYERS"), 0),
}


def check_macros(reached: ReachedBindings, bindings: Iterable[Binding]) -> None:
  """Raises UserError for a macro that is read and not defined."""
  for visit in reached.visits.values():
    if visit.selector == MACRO and not visit.bindings:
      name = "/".join(visit.scopes)
      macros = {b.scope for b in bindings if b.selector == MACRO}
      by = (
        f"{visit.via.where}: {visit.via.name}" if visit.via else "the command"
      )
      near = nearest(name, macros) if macros else ""
      raise UserError(
        f"{by} reads the macro {name!r}, which nothing defines: set it with "
        f"--gin.{name}=..." + (near if near.startswith("; did") else "")
      )


def check_unused(
  bindings: Iterable[Binding], used: set, used_now: set, root: str
) -> None:
  """Raises UserError for a binding that nothing uses.

  Args:
    bindings: The bindings in order.
    used: The keys of the bindings that some kind of run reads; references in
      values that were replaced count too.
    used_now: The keys of the bindings that this run reads; an override has to
      be among them.
    root: The name of the run's root.
  """
  readable = {b.name for b in bindings if b.key in used_now}
  for binding in bindings:
    readers = used_now if binding.override else used
    if binding.may_be_unused or binding.key in readers:
      continue
    kind = "macro" if binding.selector == MACRO else "binding"
    near = readable - {binding.name}
    if binding.selector == MACRO:
      near = {name for name in near if "." not in name}
    hint = nearest(binding.name, near) if near else ""
    raise UserError(
      f"{binding.where}: the {kind} {binding.name!r} is used by nothing that "
      f"{root!r} reads{hint}"
    )


def check_required(reached: ReachedBindings, given: Container[str]) -> None:
  """Raises UserError for a required parameter that is not bound.

  Args:
    reached: The bindings that the root reaches.
    given: The names of the parameters of the root that its caller passes.
  """
  for visit in reached.visits.values():
    for binding in visit.bindings.values():
      if is_required(binding.value):
        raise UserError(_required(binding.name, f" ({binding.where})"))
    if visit.selector == MACRO or not visit.evaluated:
      continue
    configurable = registry.find(visit.selector, "")
    for name, parameter in registry.parameters(configurable).items():
      if visit.via is None and name in given:
        continue
      if parameter.required and name not in visit.bindings:
        by = f" (reached from {visit.via.where})" if visit.via else ""
        raise UserError(_required(_full_name(visit, name), by))


def check_types(reached: ReachedBindings) -> None:
  """Raises UserError for a value that its parameter's annotation excludes."""
  for visit in reached.visits.values():
    if visit.selector == MACRO:
      continue
    parameters = registry.parameters(registry.find(visit.selector, ""))
    for name, binding in visit.bindings.items():
      if name not in parameters:
        continue
      annotation = parameters[name].annotation
      value = reached.resolved(binding.value)
      if accepts(value, annotation):
        continue
      source, through = binding, ""
      while is_macro(source.value):
        through = f" through the macro {'/'.join(source.value.scopes)!r}"
        source = reached.macro(source.value)
      raise UserError(
        f"{source.where}: {binding.name} must be {describe(annotation)} "
        f"and is {describe_value(value)}{through}"
      )


def check_sizes(reached: ReachedBindings) -> None:
  """Raises UserError for a size that is too small, by its macro's name."""
  for visit in reached.visits.values():
    name = "/".join(visit.scopes)
    least = _LEAST_SIZES.get(name) if visit.selector == MACRO else None
    for binding in visit.bindings.values() if least is not None else ():
      value = reached.resolved(binding.value)
      if isinstance(value, int) and value < least:
        raise UserError(
          f"{binding.where}: {name}={value} must be at least {least}"
        )


def _full_name(visit: Visit, parameter: str) -> str:
  scope = "/".join(visit.scopes)
  prefix = scope + "/" if scope else ""
  return f"{prefix}{registry.short_name(visit.selector)}.{parameter}"


def _required(name: str, by: str) -> str:
  return f"{name} is required{by}: set it with --gin.{name}=..."


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
    return _accepts_reference(value, origin or annotation)
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
  reference: gin_config.ConfigurableReference, kind: Any
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
