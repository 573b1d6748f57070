"""Writing of a configuration as gin text."""

from collections.abc import Iterable
import inspect

from gin import config as gin_config

from transformer_zoo.config import registry
from transformer_zoo.config.reached_bindings import ReachedBindings
from transformer_zoo.config.reading import MACRO
from transformer_zoo.config.task_modules import TASK_MODULES


def write(
  reached: ReachedBindings,
  imports: Iterable[str] = (),
  task_modules: str | None = None,
) -> str:
  """Returns the visited bindings as sorted text, with defaults as comments.

  Args:
    reached: The bindings that the root reaches.
    imports: The names of a user's own modules, without which the text would not
      load again.
    task_modules: The value of `TASK_MODULES`; None if it is not set.
  """
  macros, bindings, defaults = {}, {}, {}
  if task_modules:
    macros[TASK_MODULES] = repr(task_modules)
  for visit in reached.visits.values():
    for binding in visit.bindings.values():
      target = macros if binding.selector == MACRO else bindings
      target[binding.name] = _literal(binding.value)
    if visit.selector == MACRO:
      continue
    name = registry.short_name(visit.selector)
    parameters = registry.parameters(registry.find(visit.selector, ""))
    for parameter, (_, default) in parameters.items():
      if parameter not in visit.bindings and _is_literal(default):
        scope = "/".join([*visit.scopes, name])
        defaults[f"{scope}.{parameter}"] = repr(default)
  lines = [f"import {module}" for module in sorted(set(imports))]
  lines += [""] * bool(lines)
  lines += [f"{name} = {macros[name]}" for name in sorted(macros)]
  lines += [""] * bool(macros)
  lines += [f"{name} = {bindings[name]}" for name in sorted(bindings)]
  if defaults:
    lines += ["", "# Defaults, as they were:"]
    lines += [f"# {name} = {defaults[name]}" for name in sorted(defaults)]
  return "\n".join(lines) + "\n"


def _is_literal(value: object) -> bool:
  if value is inspect.Parameter.empty:
    return False
  if isinstance(value, tuple | list):
    return all(map(_is_literal, value))
  return value is None or isinstance(value, bool | int | float | str)


def _literal(value: object) -> str:
  """Returns gin's text of a value, with references by their shortest names."""
  if isinstance(value, dict):
    items = (f"{_literal(k)}: {_literal(v)}" for k, v in value.items())
    return "{" + ", ".join(items) + "}"
  if isinstance(value, list):
    return "[" + ", ".join(map(_literal, value)) + "]"
  if isinstance(value, tuple):
    inside = ", ".join(map(_literal, value))
    return f"({inside},)" if len(value) == 1 else f"({inside})"
  if isinstance(value, gin_config.ConfigurableReference):
    selector = value.configurable.selector
    if selector.startswith("gin.") and value.evaluate:
      return repr(value)
    name = "/".join([*value.scopes, registry.short_name(selector)])
    return f"@{name}{'()' if value.evaluate else ''}"
  return repr(value)
