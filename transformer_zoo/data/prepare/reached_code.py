"""The code that a function depends on, as far as it is ours or the user's.

From a function to the functions, classes and constants that it names, and from
these on. Installed packages, the standard library and TensorFlow end the
search: they change with the environment, not while an experiment is written.
"""

from collections.abc import Iterator, Mapping, Sequence
import dis
import functools
import importlib
import importlib.util
import inspect
import pathlib
import sys
import sysconfig
import textwrap
import types
from typing import Any
import weakref

from transformer_zoo.data.prepare import plain_values

# Ours, wherever they are installed.
_OURS = ("transformer_zoo", "tasks", "mixtures")
# They keep what they have seen, and sources may call them in `fingerprint`.
_HASHING = (__name__, plain_values.__name__)
_INSTALLED = tuple(
  str(pathlib.Path(sysconfig.get_path(name)).resolve())
  for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}
_CONSTANTS = (*plain_values.PRINTED, tuple, frozenset)
# Of functions and classes, which are equal only to themselves.
_sources: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def reached_code(*values: Any) -> list[list[str]]:
  """Returns [name, source code or value] of all that `values` depend on.

  The order is that of the search, which is the same in every process.

  Args:
    *values: functions, partial functions, classes and instances of classes.
  """
  found, seen = [], set()
  waiting = [("", value) for value in reversed(values)]
  kept = []  # an id stands for its object as long as that lives
  while waiting:
    name, value = waiting.pop()
    # Whether two equal constants are one object is the interpreter's affair.
    if not isinstance(value, _CONSTANTS):
      if id(value) in seen:
        continue
      seen.add(id(value))
      kept.append(value)
    content = _content(value)
    if content is not None:
      found.append([getattr(value, "__qualname__", name), content])
    waiting += reversed([*_reached_from(name, value)])
  return found


def source_code(value: Any) -> str:
  """Returns the source of a function or class, '' where there is none.

  Of one that it has been asked for before, what it was then: finding the lines
  takes most of the time of a search.
  """
  if value not in _sources:
    _sources[value] = _find_source(value)
  return _sources[value]


def _find_source(value: Any) -> str:
  code = getattr(value, "__code__", None)
  try:  # of a function, `getsource` returns what it is a wrapper of
    return textwrap.dedent(inspect.getsource(code or value))
  except (OSError, TypeError):  # made in a shell, or compiled
    return "" if code is None else code.co_code.hex()


def _content(value: Any) -> str | None:
  """Returns what a change of `value` shows in, None where only parts count."""
  if isinstance(value, type) or inspect.isfunction(value):
    return source_code(value) if _is_followed(value) else None
  return plain_values.text_of(value)


def _reached_from(name: str, value: Any) -> Iterator[tuple[str, Any]]:
  """Yields what one value depends on directly, with names."""
  if isinstance(value, functools.partial):
    yield from [("", value.func), ("", value.args), ("", value.keywords)]
  elif isinstance(value, Mapping):
    yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
  elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
    yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
  elif inspect.ismethod(value):
    yield from [("", value.__func__), ("", value.__self__)]
  elif inspect.isfunction(value):
    yield from _reached_from_function(value)
  elif isinstance(value, type):
    if _is_followed(value):
      yield from (("", base) for base in value.__bases__)
      yield from ((f"{value.__qualname__}.{k}", v) for k, v in _members(value))
  elif isinstance(value, types.ModuleType):
    return
  elif _is_followed(type(value)):
    yield "", type(value)
    fields = plain_values.fields(value)
    yield from ((f"{name}.{key}", item) for key, item in fields)


def _reached_from_function(function: Any) -> Iterator[tuple[str, Any]]:
  if hasattr(function, "__wrapped__"):
    yield "", function.__wrapped__
  for cell in function.__closure__ or ():
    try:
      yield f"{function.__qualname__} encloses", cell.cell_contents
    except ValueError:  # the name has no value yet
      continue
  if not _is_followed(function):
    return
  values = function.__globals__
  for code in _code_objects(function.__code__):
    modules = [*_imported(code, values.get("__package__"))]
    for name in code.co_names:
      if isinstance(values.get(name), types.ModuleType):
        modules.append(values[name])
      elif name in values and not name.startswith("__"):  # __file__
        yield f"{values['__name__']}.{name}", values[name]
    for module in modules:
      yield from _named_in(module, code.co_names)


def _named_in(
  module: types.ModuleType, names: Sequence[str]
) -> Iterator[tuple[str, Any]]:
  """Yields the attributes of a module of ours that `names` name."""
  if not _is_own(module.__name__):
    return
  for name in names:
    value = vars(module).get(name)
    if isinstance(value, types.ModuleType) and value is not module:
      yield from _named_in(value, names)
    elif name in vars(module):
      yield f"{module.__name__}.{name}", value


def _imported(
  code: types.CodeType, package: str | None
) -> Iterator[types.ModuleType]:
  """Yields the modules of ours that are imported inside a function."""
  values = []
  for instruction in dis.get_instructions(code):
    values.append(instruction.argval)
    if instruction.opname != "IMPORT_NAME":
      continue
    level, names, name = values[-3:]
    name = importlib.util.resolve_name("." * level + name, package or None)
    if not _is_own(name):
      continue
    module = importlib.import_module(name)
    yield module
    for submodule in (f"{name}.{part}" for part in names or ()):
      if hasattr(module, "__path__") and importlib.util.find_spec(submodule):
        yield importlib.import_module(submodule)


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
  """Yields the code of a function and of those written inside it."""
  yield code
  for constant in code.co_consts:
    if isinstance(constant, types.CodeType):
      yield from _code_objects(constant)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
  """Yields the functions and constants of a class."""
  for name, value in vars(cls).items():
    if name.startswith("__") and _is_generated(value):
      continue
    if isinstance(value, (staticmethod, classmethod)):
      yield name, value.__func__
    elif isinstance(value, property):
      yield name, value.fget
    elif isinstance(value, functools.cached_property):
      yield name, value.func
    else:
      yield name, value


def _is_generated(value: Any) -> bool:
  """Whether a class attribute is Python's, or one of a dataclass's methods."""
  code = getattr(value, "__code__", None)
  return code is None or code.co_filename == "<string>"


def _is_followed(value: Any) -> bool:
  """Whether a function or class is written in a module of ours."""
  if inspect.isfunction(value):
    # A decorator's wrapper has the name of the module of what it wraps.
    return _is_own(value.__globals__.get("__name__", ""))
  return _is_own(value.__module__)


@functools.lru_cache(maxsize=4096)
def _is_own(module: str) -> bool:
  """Whether a module is ours or the user's, and not an installed one."""
  if module in _HASHING:
    return False
  root = module.partition(".")[0]
  if root in _OURS or root == "__main__":
    return True
  if root in sys.builtin_module_names:
    return False
  try:
    found = importlib.util.find_spec(root)
  except (ImportError, ValueError):  # made in memory
    return True
  if found is None:
    return True
  places = [found.origin, *(found.submodule_search_locations or ())]
  paths = [pathlib.Path(p).resolve() for p in places if p and "/" in p]
  return bool(paths) and not any(
    str(path).startswith(_INSTALLED) or _PACKAGE_FOLDERS & set(path.parts)
    for path in paths
  )
