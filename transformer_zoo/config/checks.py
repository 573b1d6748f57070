"""Checks of a configuration before it runs, one sentence for each mistake."""

from collections.abc import Container, Iterable

from transformer_zoo.config import registry
from transformer_zoo.config import types
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
      if types.accepts(value, annotation):
        continue
      source, through = binding, ""
      while is_macro(source.value):
        through = f" through the macro {'/'.join(source.value.scopes)!r}"
        source = reached.macro(source.value)
      raise UserError(
        f"{source.where}: {binding.name} must be {types.describe(annotation)} "
        f"and is {types.describe_value(value)}{through}"
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
