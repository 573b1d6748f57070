"""The bindings that a run will read, found by references from its root.

Everything that is registered with `@gin.register` is configured only where a
gin reference stands, so what a run reads is known before it starts. Scopes
follow gin 0.5: a reference with scopes replaces the current scope, one without
keeps it, and the value of a macro is evaluated within the scope of its name.

`%previous/NAME` is the value of the macro NAME before a file bound it anew. A
gin file wraps the choice of earlier files with it, whatever that was:
`MODEL = @substitute()` with `substitute.model = %previous/MODEL`.
"""

from collections.abc import Iterable, Sequence
import dataclasses
from typing import Any

from gin import config as gin_config

from transformer_zoo.config import registry
from transformer_zoo.config.reading import Binding
from transformer_zoo.config.reading import file_of
from transformer_zoo.config.reading import MACRO
from transformer_zoo.config.reading import PREVIOUS
from transformer_zoo.errors import UserError

CONSTANT = "gin.constant"
Key = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Visit:
  """A configurable in the scope in which a run builds or calls it."""

  scopes: tuple[str, ...]
  selector: str
  evaluated: bool
  via: Binding | None
  bindings: dict[str, Binding]


class ReachedBindings:
  """The parameters that are read, starting from some roots."""

  def __init__(self, bindings: Iterable[Binding], *, overridden: bool):
    """Prepares a walk.

    Args:
      bindings: The bindings in the order in which they were read.
      overridden: Whether values that a later binding replaced are followed too.
        A file that swaps one part for another leaves bindings of the old one in
        the files it includes, which are no mistakes.
    """
    self._overridden = overridden
    self._table: dict[tuple[str, str], dict[str, list[Binding]]] = {}
    for binding in bindings:
      values = self._table.setdefault((binding.scope, binding.selector), {})
      history = values.setdefault(binding.parameter, [])
      if not overridden:
        history.clear()
      history.append(binding)
    self.visits: dict[tuple, Visit] = {}
    self.used: set[Key] = set()

  def follow(
    self,
    scopes: tuple[str, ...],
    selector: str,
    *,
    evaluated: bool = True,
    via: Binding | None = None,
  ) -> None:
    """Visits a configurable and all that its bindings refer to."""
    key = (scopes, selector, evaluated)
    if key in self.visits or selector == CONSTANT:
      return
    read = [
      (parameter, history)
      for length in range(len(scopes) + 1)
      for parameter, history in self._table.get(
        ("/".join(scopes[:length]), selector), {}
      ).items()
    ]
    effective = {parameter: history[-1] for parameter, history in read}
    self.visits[key] = Visit(scopes, selector, evaluated, via, effective)
    if self._overridden:
      followed = [binding for _, history in read for binding in history]
    else:
      followed = list(effective.values())
    for binding in followed:
      self.used.add(binding.key)
      for reference in registry.references(binding.value):
        self._follow_reference(reference, scopes, binding)

  def _follow_reference(
    self,
    reference: gin_config.ConfigurableReference,
    scopes: tuple[str, ...],
    via: Binding,
  ) -> None:
    selector = reference.configurable.selector
    inner = tuple(reference.scopes) or scopes
    self.follow(inner, selector, evaluated=reference.evaluate, via=via)
    if not reference.evaluate and not reference.scopes and scopes:
      # A function that is handed over is called later, outside of this scope.
      self.follow((), selector, evaluated=False, via=via)

  def macro(self, reference: Any) -> Binding | None:
    """Returns the binding that a macro reference reads, or None."""
    visit = self.visits.get((tuple(reference.scopes), MACRO, True))
    return visit.bindings.get("value") if visit else None

  def resolved(self, value: Any) -> Any:
    """Returns the value with all macros in it replaced by their values."""
    if isinstance(value, dict):
      return {k: self.resolved(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
      return type(value)(map(self.resolved, value))
    if is_macro(value):
      binding = self.macro(value)
      return value if binding is None else self.resolved(binding.value)
    return value


def is_macro(value: Any) -> bool:
  """Whether a value is `%NAME`."""
  return (
    isinstance(value, gin_config.ConfigurableReference)
    and value.configurable.selector == MACRO
  )


def is_required(value: Any) -> bool:
  """Whether a value is `%gin.REQUIRED`."""
  return (
    isinstance(value, gin_config.ConfigurableReference)
    and value.configurable.selector == CONSTANT
    and value.scoped_configurable_fn() is gin_config.REQUIRED
  )


def previous_bindings(bindings: Sequence[Binding]) -> list[Binding]:
  """Returns the bindings of all `%previous/NAME` that bindings read and lack.

  Args:
    bindings: The bindings in the order in which they were read.

  Raises:
    UserError: NAME had no other value before, or gets another one after.
  """
  macros = [binding for binding in bindings if binding.selector == MACRO]
  names = {macro.scope for macro in macros}
  found = {}
  for binding in bindings:
    for reference in registry.references(binding.value):
      name = "/".join(reference.scopes)
      if is_macro(reference) and name.startswith(PREVIOUS):
        if name not in names and name not in found:
          found[name] = _before(name, macros, binding)
  return [*found.values()]


def _before(name: str, macros: Sequence[Binding], reader: Binding) -> Binding:
  """Returns the binding of a macro before the file of a reader."""
  wanted = name.removeprefix(PREVIOUS)
  history = [macro for macro in macros if macro.scope == wanted]
  # A file that is named twice binds the same again.
  others = [m for m in history if repr(m.value) != repr(history[-1].value)]
  if not others or file_of(history[-1]) != file_of(reader):
    raise UserError(
      f"{reader.where}: {reader.name} goes on from what {wanted} was before, "
      f"so name {file_of(reader)} after all that bind {wanted}: after the "
      "files of the architecture and the run"
    )
  return others[-1]._replace(scope=name)
