"""Configurables registered with gin: names, parameters, references.

gin has no public function that lists names or checks a parsed reference, which
helpful messages need. Its private names are used here and nowhere else.
"""

from collections.abc import Iterable, Iterator
import contextlib
import dataclasses
import functools
import importlib
import inspect
import pathlib
import re
import sys
from typing import Any, NamedTuple

from gin import config as gin_config
from gin import selector_map

import transformer_zoo
from transformer_zoo import corruption
from transformer_zoo import effects
from transformer_zoo.config import signatures
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_Unknown = gin_config._UnknownConfigurableReference
_STATE = ("_CONFIG", "_OPERATIVE_CONFIG", "_SINGLETONS", "_CONFIG_IS_LOCKED")
# Flax gives these to every module; a tree of parts never sets them by gin.
_LINEN_FIELDS = frozenset({"name", "parent"})

# Files and folders of the package whose modules register configurables.
ROOMS = (
  *("architectures", "cleaning", "data/mixing.py", "decoding"),
  *("evaluation/scorers", "modules", "objectives", "peft", "runs", "training"),
)
_REGISTERED = re.compile(
  r'^@gin\.register(?:\((?:"(\w+)"|module="([\w.]+)")\))?\n(?:@.*\n)*'
  r"(?:class|def) (\w+)"
  r'|^gin\.external_configurable\(\s*\w+,\s*"(\w+)",\s*module="([\w.]+)"',
  re.MULTILINE,
)
# Corruptions and converters do not import gin; `load` registers their classes.
_CONVERTERS = "transformer_zoo.data.features.converters"
_PROMPTS = "transformer_zoo.data.features.prompts"
_CONVERTER_NAMES = (
  *("Encoder", "EncoderDecoder", "LanguageModel", "PrefixLanguageModel"),
  "Unified",
)


class Parameter(NamedTuple):
  """A parameter of a configurable."""

  annotation: Any
  default: Any

  @property
  def required(self) -> bool:
    """Whether it has to be bound."""
    return self.default is inspect.Parameter.empty or (
      self.default is gin_config.REQUIRED
    )


class _Place(NamedTuple):
  """The module of a configurable.

  Attributes:
    module: The module that defines it.
    external: The class to register if the module does not.
    defined: Its name in the module if it is registered by another one.
  """

  module: str
  external: str | None = None
  defined: str | None = None


@dataclasses.dataclass(frozen=True)
class _Unimported:
  """A configurable whose module is not imported."""

  selector: str


class NamedReference(_Unknown):
  """A reference to a configurable whose module is not imported."""

  def __init__(self, scoped_selector: str, evaluate: bool):
    super().__init__(scoped_selector, evaluate)
    self.scopes = scoped_selector.split("/")[:-1]

  @property
  def configurable(self) -> _Unimported:
    """The configurable of the name."""
    return _Unimported(known().matching_selectors(self.selector)[0])


_imports_nothing = False


@contextlib.contextmanager
def importing_nothing() -> Iterator[None]:
  """Finds configurables by their names in the sources within the block."""
  global _imports_nothing
  _imports_nothing = True
  try:
    yield
  finally:
    _imports_nothing = False


def imports_nothing() -> bool:
  """Whether this is within `importing_nothing`."""
  return _imports_nothing


def load(name: str) -> None:
  """Imports the modules that register the configurables of a name.

  Args:
    name: A selector, whole or its last parts; gin's registry then has every
      configurable that it may mean.
  """
  if _imports_nothing:
    return
  places = _places(ROOMS)
  for selector in _placed(ROOMS, name):
    if selector in gin_config._REGISTRY:
      continue
    place = places[selector]
    module = importlib.import_module(place.module)
    if place.external:
      room, _, short = selector.rpartition(".")
      target = getattr(module, place.external)
      gin_config.external_configurable(target, short, module=room)


@functools.cache  # Reading the sources takes some milliseconds.
def _places(rooms: tuple[str, ...]) -> dict[str, _Place]:
  """Finds configurables in the sources; nothing is imported.

  Args:
    rooms: `ROOMS`.

  Returns:
    The place of each configurable by its selector.
  """
  if not rooms:
    return {}
  package = pathlib.Path(transformer_zoo.__file__).parent
  places = {
    f"corruption.{name}": _Place(f"{corruption.__name__}.{module}", name)
    for name, module in corruption.MODULES.items()
  }
  for name in _CONVERTER_NAMES:  # Each is named after its architecture.
    places[f"data.features.{name}Features"] = _Place(_CONVERTERS, name)
  places["data.features.PromptedFeatures"] = _Place(_PROMPTS, "prompted")
  for room in rooms:
    path = package / room
    for file in [path] if path.suffix else path.rglob("*.py"):
      parts = file.relative_to(package.parent).with_suffix("").parts
      module = ".".join(parts)
      for found in _REGISTERED.finditer(file.read_text(encoding="utf-8")):
        given, scope, defined, external, external_scope = found.groups()
        name = given or defined or external
        selector = f"{scope or external_scope or module}.{name}"
        places[selector] = _Place(module, defined=given and defined)
  return places


@functools.cache
def _placed(rooms: tuple[str, ...], name: str) -> list[str]:
  """The selectors of the sources that a name may mean."""
  return _selectors(_places(rooms)).matching_selectors(name)


def _selectors(selectors: Iterable[str]) -> selector_map.SelectorMap:
  names = selector_map.SelectorMap()
  for selector in selectors:
    names[selector] = selector
  return names


def known() -> selector_map.SelectorMap:
  """The selectors that are registered, or would be by an import.

  It is the same object until another one is registered.
  """
  registered = gin_config._REGISTRY
  return _with_places(registered, len(registered), ROOMS)


@functools.lru_cache(maxsize=2)  # Its length is the key: a registry only grows.
def _with_places(
  registered: selector_map.SelectorMap, length: int, rooms: tuple[str, ...]
) -> selector_map.SelectorMap:
  names = [selector for selector, _ in registered.items()]
  return _selectors(dict.fromkeys([*names, *_places(rooms)]))


def short_name(selector: str) -> str:
  """The shortest name that means one configurable."""
  return _short_name(known(), selector)


@functools.lru_cache(maxsize=4096)
def _short_name(names: selector_map.SelectorMap, selector: str) -> str:
  return names.minimal_selector(selector)


def _registered(name: str) -> list[str]:
  """The selectors of the registered configurables that a name may mean."""
  registered = gin_config._REGISTRY
  return _matching(registered, len(registered), name)


@functools.lru_cache(maxsize=4096)  # As `_with_places`.
def _matching(
  registered: selector_map.SelectorMap, length: int, name: str
) -> list[str]:
  return registered.matching_selectors(name)


def names() -> list[str]:
  """The short names of all configurables, gin's own left out."""
  return [
    short_name(selector)
    for selector, _ in known().items()
    if not selector.startswith("gin.")
  ]


def exists(name: str) -> bool:
  """Whether a configurable of this name is registered."""
  return bool(known().matching_selectors(name))


def selectors(name: str) -> list[str]:
  """Returns the whole selectors that a name may mean; nothing is imported."""
  return known().matching_selectors(name)


@contextlib.contextmanager
def apart_from(*modules: str) -> Iterator[None]:
  """Puts aside the bindings of another program in this process.

  Within it nothing is bound. Configurables that are registered meanwhile stay.

  Args:
    *modules: The modules whose configurables are unknown within it, as are
      those that gin files have registered.
  """
  kept = {name: getattr(gin_config, name) for name in _STATE}
  registry = gin_config._REGISTRY
  gin_config._REGISTRY = selector_map.SelectorMap()
  for selector, configurable in registry.items():
    by_gin_file = configurable.import_source is not None
    if not by_gin_file and not selector.startswith(modules):
      gin_config._REGISTRY[selector] = configurable
  for name, value in kept.items():
    setattr(gin_config, name, type(value)())
  try:
    with gin_config.config_scope(None):
      yield
  finally:
    for selector, configurable in gin_config._REGISTRY.items():
      if selector not in registry:
        registry[selector] = configurable
    gin_config._REGISTRY = registry
    for name, value in kept.items():
      setattr(gin_config, name, value)


def find(name: str, where: str) -> gin_config.Configurable | _Unimported:
  """Returns the configurable that a file or command names.

  Raises:
    UserError: there is none, or the name means several.
  """
  load(name)
  matches = selectors(name) if _imports_nothing else _registered(name)
  if not matches:
    raise UserError(
      f"{where}: no configurable is called {name!r}{nearest(name, names())}"
    )
  if len(matches) > 1:
    raise UserError(
      f"{where}: {name!r} may mean "
      + " or ".join(sorted(map(short_name, matches)))
    )
  if matches[0] not in gin_config._REGISTRY:
    return _Unimported(matches[0])
  return gin_config._REGISTRY[matches[0]]


def parameters(
  configurable: gin_config.Configurable | _Unimported,
) -> dict[str, Parameter]:
  """Returns the parameters that gin may bind, by name."""
  if isinstance(configurable, _Unimported):
    names = _source_parameters(configurable) or ()
    return dict.fromkeys(names, Parameter(Any, None))
  return _parameters(
    configurable.wrapped,
    frozenset(configurable.allowlist or ()),
    frozenset(configurable.denylist or ()),
  )


@functools.cache
def _parameters(
  target: Any, allowed: frozenset[str], denied: frozenset[str]
) -> dict[str, Parameter]:
  hidden = denied | _LINEN_FIELDS if is_linen(target) else denied
  return {
    name: parameter
    for name, parameter in _all_parameters(target).items()
    if name not in hidden and (not allowed or name in allowed)
  }


def _all_parameters(target: Any) -> dict[str, Parameter]:
  annotations = _annotations(target)
  return {
    name: Parameter(annotations.get(name, Any), parameter.default)
    for name, parameter in inspect.signature(target).parameters.items()
    if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
  }


def mark(name: str, parameter: str) -> effects.Effect | None:
  """Returns the mark of a parameter, or None if it has none or is unknown."""
  load(name)
  matches = _registered(name)
  if len(matches) != 1:
    return None
  found = parameters(gin_config._REGISTRY[matches[0]]).get(parameter)
  return found and effects.marked(found.annotation)


def _source_parameters(configurable: _Unimported) -> frozenset[str] | None:
  """The names of the parameters, None if the source does not show them."""
  place = _places(ROOMS)[configurable.selector]
  name = place.external or place.defined
  name = name or configurable.selector.rpartition(".")[2]
  return signatures.parameters(place.module, name)


def takes_any(configurable: gin_config.Configurable | _Unimported) -> bool:
  """Returns whether a configurable has `**kwargs`, or may have it."""
  if isinstance(configurable, _Unimported):
    return _source_parameters(configurable) is None
  return _takes_any(configurable.wrapped)


@functools.cache
def _takes_any(target: Any) -> bool:
  return any(
    parameter.kind is parameter.VAR_KEYWORD
    for parameter in inspect.signature(target).parameters.values()
  )


def result_type(configurable: gin_config.Configurable) -> Any:
  """Returns the type of its result: a class itself, or a return annotation."""
  target = configurable.wrapped
  if inspect.isclass(target):
    return target
  return _annotations(target).get("return", Any)


def references(value: Any) -> Iterator[Any]:
  """Every configurable reference in a value, however deep."""
  if isinstance(value, dict):
    for key, item in value.items():
      yield from references(key)
      yield from references(item)
  elif isinstance(value, list | tuple):
    for item in value:
      yield from references(item)
  elif isinstance(value, gin_config.ConfigurableReference | _Unknown):
    yield value


def check_references(value: Any, where: str) -> None:
  """Raises UserError for a reference in `value` to what is not registered."""
  for reference in references(value):
    if isinstance(reference, _Unknown):
      find(reference.selector, where)


def is_linen(target: Any) -> bool:
  """Whether it is a Flax module, asked without importing Flax."""
  return inspect.isclass(target) and any(
    base.__name__ == "Module" and base.__module__.startswith("flax.linen")
    for base in target.__mro__
  )


def _annotations(target: Any) -> dict[str, Any]:
  """Annotations as objects; one that cannot be resolved becomes Any.

  `typing.get_type_hints` would give up on all of a class for one name that
  only a type checker sees, as Flax has them.
  """
  if not inspect.isclass(target):
    found = dict(inspect.get_annotations(target))
    scope = getattr(target, "__globals__", {})
    return {name: _resolve(note, scope) for name, note in found.items()}
  if not dataclasses.is_dataclass(target):
    return _annotations(target.__init__)
  found = {}
  for base in reversed(target.__mro__):
    scope = vars(sys.modules.get(base.__module__, object))
    for name, note in inspect.get_annotations(base).items():
      found[name] = _resolve(note, scope)
  return found


def _resolve(annotation: Any, scope: dict[str, Any]) -> Any:
  if not isinstance(annotation, str):
    return annotation
  try:
    return eval(annotation, dict(scope))
  except (NameError, AttributeError, TypeError, SyntaxError):
    return Any
