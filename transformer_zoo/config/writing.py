"""Writes a configuration as gin text, hashes it, compares two."""

from collections.abc import Iterable
import hashlib
import inspect
import re

from gin import config as gin_config

from transformer_zoo.config import registry
from transformer_zoo.config.reach import Reach
from transformer_zoo.config.reading import MACRO
from transformer_zoo.config.task_modules import TASK_MODULES

# Macros that say where a run reads and writes, with how many processes and who
# looks on, not what it computes.
PLACES = frozenset(
  {
    *("DATA_DIR", "MODEL_DIR", "NUM_WORKERS", "PREPARED_DIR", TASK_MODULES),
    *("PROFILE", "WRITERS"),
  }
)
# What says how a run is laid out over devices and time, what is kept of it, and
# what NaN leads to; one may go on with another, from the same parameters and
# optimizer state.
_LAYOUT = re.compile(
  r"(FSDP|NUM_MICROBATCHES|NUM_PARTITIONS|NUM_SLICES|REMAT|SCAN_LAYERS"
  r"|ON_NOT_FINITE|ON_SPIKE"
  r"|([\w/]+/)?(Anomalies|MlFlow|Partitioning|WeightsAndBiases)\.\w+"
  r"|([\w/]+/)?Checkpointing\.(?!folder\b)\w+"
  r"|([\w/]+/)?Watching\.(profile|writers)"
  r"|([\w/]+/)?Stack\.(remat|scan)"
  r"|train\.(checkpointing|num_microbatches|partitioning|watching))"
)
_STATEMENT = re.compile(r"^([\w./]+) = (.*)$", re.MULTILINE)
_SHOWN = 4


def write(
  reach: Reach, imports: Iterable[str] = (), task_modules: str | None = None
) -> str:
  """What `reach` visited, as sorted text; defaults stand as comments.

  Args:
    reach: from the root.
    imports: modules of a user's own, without which it would not load again.
    task_modules: the value of `TASK_MODULES`.
  """
  macros, bindings, defaults = {}, {}, {}
  if task_modules:
    macros[TASK_MODULES] = repr(task_modules)
  for visit in reach.visits.values():
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


def digest(text: str) -> str:
  """Twelve hexadecimal digits of what a text binds, `PLACES` left out."""
  bound = "\n".join(
    f"{name} = {value}" for name, value in sorted(_bound(text).items())
  )
  return hashlib.sha256(bound.encode()).hexdigest()[:12]


def difference(old: str, new: str, *, layout: bool | None = None) -> str:
  """Names what differs between two configurations, "" where nothing does.

  Args:
    old: text of `operative_config`, of a run folder.
    new: the same, of the command.
    layout: True looks at nothing but how a run is laid out over devices and
      what is kept of it, False at all but that, None at everything.

  Returns:
    For example `TRAIN_STEPS was 100 and is 200, Mlp.d_ff was 64 and is unset`.
  """
  before, after = _bound(old), _bound(new)
  changes = [
    f"{name} was {before.get(name, 'unset')} and is {after.get(name, 'unset')}"
    for name in sorted(before.keys() | after.keys())
    if before.get(name) != after.get(name)
    and layout in (None, bool(_LAYOUT.fullmatch(name)))
  ]
  rest = len(changes) - _SHOWN
  shown = ", ".join(changes[:_SHOWN])
  return shown + (f", and {rest} more" if rest > 0 else "")


def _bound(text: str) -> dict[str, str]:
  return {
    name: value
    for name, value in _STATEMENT.findall(text)
    if name not in PLACES
  }


def _is_literal(value: object) -> bool:
  if value is inspect.Parameter.empty:
    return False
  if isinstance(value, tuple | list):
    return all(map(_is_literal, value))
  return value is None or isinstance(value, bool | int | float | str)


def _literal(value: object) -> str:
  """gin's text of a value, references by their shortest names."""
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
