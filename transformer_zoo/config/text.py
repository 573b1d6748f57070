"""Configurations as gin text: written, hashed and compared.

Two texts are compared by what each of their settings affects. Settings are
marked where they are defined (transformer_zoo/effects.py). What a macro affects
follows from the settings that read it, and what an unmarked parameter of a part
affects from the setting that refers to the part; where several do, the
strongest effect counts.
"""

from collections.abc import Iterable, Iterator
import hashlib
import inspect
import re

from gin import config as gin_config

from transformer_zoo.config import earlier_names
from transformer_zoo.config import registry
from transformer_zoo.config.reached_bindings import ReachedBindings
from transformer_zoo.config.reading import MACRO
from transformer_zoo.config.reading import TASK_MODULES
from transformer_zoo.effects import Effect

_STATEMENT = re.compile(r"^([\w./]+) = (.*)$", re.MULTILINE)
_DEFAULT = re.compile(r"^# ([\w./]+) = (.*)$", re.MULTILINE)
_MACRO = re.compile(r"%([\w./]+)")
_REFERENCE = re.compile(r"([@%])([\w./]+)")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_SHOWN = 4


def digest(text: str) -> str:
  """Twelve hexadecimal digits of what a text binds, places left out."""
  bound = dict(_STATEMENT.findall(text))
  affects = effects(bound.items())
  statements = "\n".join(
    f"{name} = {value}"
    for name, value in sorted(bound.items())
    if affects[name] != Effect.PLACE
  )
  return hashlib.sha256(statements.encode()).hexdigest()[:12]


def difference(old: str, new: str, *, layout: bool | None = None) -> str:
  """Names what differs between two configurations, "" if nothing does.

  Places are not compared. A parameter that one text binds and the other leaves
  at an equal default does not differ.

  Args:
    old: The text of `operative_config` in a run folder.
    new: The text of the command's configuration.
    layout: True compares settings of speed alone, False settings of the result
      alone, None both.

  Returns:
    For example `TRAIN_STEPS was 100 and is 200, Mlp.d_ff was 64 and is unset`.
  """
  before, after = _Text(earlier_names.renewed(old)), _Text(new)
  affects = effects([*before.bound.items(), *after.bound.items()])
  compared = {
    None: (Effect.SPEED, Effect.RESULT),
    True: (Effect.SPEED,),
    False: (Effect.RESULT,),
  }[layout]
  changes = [
    f"{name} was {before.bound.get(name, 'unset')} and is "
    f"{after.bound.get(name, 'unset')}"
    for name in sorted(affects)
    if affects[name] in compared and _differs(name, before, after)
  ]
  rest = len(changes) - _SHOWN
  shown = ", ".join(changes[:_SHOWN])
  return shown + (f", and {rest} more" if rest > 0 else "")


def effects(bound: Iterable[tuple[str, str]]) -> dict[str, Effect]:
  """Returns what each of the names affects.

  Args:
    bound: The names and values of statements as texts; a name that occurs
      several times is one setting.
  """
  bound = [(n, v, [*_references(v)]) for n, v in bound]
  referred = {each for *_, references in bound for each in references}
  affected: dict[str, Effect] = {TASK_MODULES: Effect.PLACE}
  marks = {name: _mark(name) for name, *_ in bound}

  def effect(name):
    if marks[name] is not None:
      return marks[name]
    part = name.rpartition(".")[0]
    thing = _last(part) if part else name
    weakest = Effect.PLACE if thing in referred else Effect.RESULT
    return affected.get(thing, weakest)

  changed = True
  while changed:  # Effects grow along references until none does.
    changed = False
    for name, _, references in bound:
      for thing in references:
        if affected.get(thing, Effect.PLACE) < effect(name):
          affected[thing] = effect(name)
          changed = True
  return {name: effect(name) for name, *_ in bound}


def _mark(name: str) -> Effect | None:
  """The mark of a parameter; macros have none."""
  part, _, parameter = name.rpartition(".")
  return registry.mark(_last(part), parameter) if part else None


class _Text:
  """A configuration as text: what it binds, with the defaults it lists."""

  def __init__(self, text: str):
    self.bound = dict(_STATEMENT.findall(text))
    self._defaults = dict(_DEFAULT.findall(text))
    self._read = {
      each for value in self.bound.values() for each in _references(value)
    }

  def reads(self, macro: str) -> bool:
    """Whether a value of the text contains a macro."""
    return macro in self._read

  def resolved(self, name: str) -> str | None:
    """The value of a name with macros replaced, None if it has none."""
    value = self.bound.get(name, self._defaults.get(name))
    if value is None:
      return None
    return _MACRO.sub(lambda m: self.resolved(m[1]) or m[0], value)


def _differs(name: str, before: _Text, after: _Text) -> bool:
  old, new = before.bound.get(name), after.bound.get(name)
  if old == new:
    return False
  if "." not in name and (old is None or new is None):
    # What reads the macro is compared instead.
    return not (after if old is None else before).reads(name)
  return before.resolved(name) != after.resolved(name)


def _references(value: str) -> Iterator[str]:
  """Yields the names of the configurables and macros in a value."""
  value = _STRING.sub("", value)
  for kind, name in _REFERENCE.findall(value):
    yield _last(name) if kind == "@" else name


def _last(name: str) -> str:
  """A name without its scopes."""
  return name.rpartition("/")[2]


def write(
  reached: ReachedBindings,
  imports: Iterable[str] = (),
  task_modules: str | None = None,
) -> str:
  """Returns the visited bindings as sorted text, with defaults as comments.

  Args:
    reached: What the root reaches.
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
