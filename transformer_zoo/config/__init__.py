"""gin: load files and overrides, check them, explain mistakes, write back.

`check_names` answers a typo before anything is imported, `load` reads and
checks; `call` runs a root such as `train`; `value` builds the value of a macro,
`build` the value of a macro in another configuration. `operative_config` is the
configuration of a run as text, `text_of` a part of it; `config_hash` and
`difference` compare configurations by what their settings affect
(transformer_zoo/effects.py). `setting` is the value of one parameter.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
import contextlib
import functools
from typing import Any

import gin

from transformer_zoo.config import checks
from transformer_zoo.config import reading
from transformer_zoo.config import registry
from transformer_zoo.config.reached_bindings import previous_bindings
from transformer_zoo.config.reached_bindings import ReachedBindings
from transformer_zoo.config.reading import Binding
from transformer_zoo.config.reading import bound
from transformer_zoo.config.reading import folders
from transformer_zoo.config.reading import MACRO
from transformer_zoo.config.text import difference
from transformer_zoo.config.text import digest
from transformer_zoo.config.text import write
from transformer_zoo.effects import Effect
from transformer_zoo.errors import nearest
from transformer_zoo.errors import sentence
from transformer_zoo.errors import UserError

__all__ = [
  "bound",
  "build",
  "call",
  "check_names",
  "config_hash",
  "defines",
  "difference",
  "folders",
  "kept",
  "load",
  "macros",
  "operative_config",
  "setting",
  "text_of",
  "value",
]

# Kinds of runs: a gin file may configure several, a command runs one.
ROOTS = ("train", "evaluate", "infer", "clean")
# Kinds of heads of an encoder. The configuration of a run describes them all: a
# file of gin_configs/heads/ after it may choose another one.
HEADS = ("TransformedLogits", "ClassLogits", "TokenClassLogits")

_loaded: list[Binding] = []
_loaded_imports: list[str] = []
_loaded_root: str | None = None
# What a root reaches of `_loaded`, which many questions of a run ask.
_reached: dict[tuple[str | None, ...], ReachedBindings] = {}


def load(
  gin_files: Sequence[str] = (),
  bindings: Sequence[str] = (),
  search_paths: Sequence[str] = (),
  *,
  changes: Sequence[str] = (),
  root: str | None = "train",
  given: Sequence[str] = (),
  defaults: Sequence[str] = (),
  allow_unused: bool = False,
) -> None:
  """Replaces gin's configuration by files and overrides, and checks it.

  Args:
    gin_files: The names of gin files in order. Each is searched in the search
      paths, in the current folder and among the gin files of the package.
    bindings: The overrides `NAME=VALUE`, where NAME is a macro or
      `Configurable.parameter`.
    search_paths: The folders that are searched first.
    changes: Files (`*.gin`) and overrides in one order, after `gin_files`; a
      file may bind again what an override before it binds.
    root: The configurable that will run, or a macro such as `MODEL`, of which
      only what it reaches is checked. None checks everything except required
      parameters and unused bindings.
    given: The parameters of the root that `call` will pass.
    defaults: Bindings `NAME=VALUE` that apply if nothing else sets the
      parameter; they may be unused.
    allow_unused: Whether `bindings` may be unused.

  Raises:
    UserError: A file is missing or does not parse, a name does not exist, a
      value has the wrong type, a required parameter is not bound, or a binding
      is unused.
  """
  global _loaded_root
  read, imported = [reading.read_default(text) for text in defaults], []
  for name in gin_files:
    read += reading.read_file(name, search_paths, imported=imported)
  for change in changes:
    read += reading.read_change(change, search_paths, imported)
  read += [
    reading.read_override(text)._replace(may_be_unused=allow_unused)
    for text in bindings
  ]
  read = reading.take_task_modules(read)
  read += previous_bindings(read)
  _bind(read)
  _loaded_imports[:] = imported
  _loaded_root = root
  try:
    _check(root, given)
  except RecursionError as error:
    raise UserError("macros refer to each other in a circle") from error


def check_names(
  gin_files: Sequence[str],
  bindings: Sequence[str],
  search_paths: Sequence[str],
  *,
  root: str,
  defaults: Sequence[str] = (),
) -> dict[str, Any]:
  """Checks the names that files and overrides use before `load` reads them.

  `load` imports the modules that the names stand for, which takes seconds.

  Args:
    gin_files: The names of gin files; see `load`.
    bindings: The overrides; see `load`.
    search_paths: The folders that are searched first.
    root: The configurable that will run.
    defaults: Bindings that apply if nothing else sets the parameter.

  Returns:
    The values of macros, with references as they are.

  Raises:
    UserError: A file is missing or does not parse, a name does not exist, or a
      binding is unused.
  """
  loaded = [*_loaded]
  try:
    with registry.importing_nothing():
      read = [reading.read_default(text) for text in defaults]
      read += _read(gin_files, bindings, search_paths)
      read = reading.take_task_modules(read)
      _loaded[:] = [*read, *previous_bindings(read)]
      _reached.clear()
      checks.check_macros(_reach(root), _loaded)
      _check_unused(root)
  except RecursionError as error:
    raise UserError("macros refer to each other in a circle") from error
  finally:
    _loaded[:] = loaded
    _reached.clear()
  return {b.scope: b.value for b in read if b.selector == MACRO}


def macros(
  gin_files: Sequence[str],
  bindings: Sequence[str],
  search_paths: Sequence[str] = (),
) -> dict[str, Any]:
  """Returns the values of the macros that files and overrides bind.

  Nothing is imported or checked; references stay as they are.

  Args:
    gin_files: The names of gin files; see `load`.
    bindings: The overrides; see `load`.
    search_paths: The folders that are searched first.

  Raises:
    UserError: A file is missing or does not parse.
  """
  with registry.importing_nothing():
    read = _read(gin_files, bindings, search_paths)
  return {b.scope: b.value for b in read if b.selector == MACRO}


def call(name: str, **arguments: Any) -> Any:
  """Calls a configurable, such as `train`, with what gin binds to it."""
  registry.load(name)
  return _without_gin_trace(
    functools.partial(gin.get_configurable(name), **arguments)
  )


def defines(macro: str) -> bool:
  """Returns whether the loaded configuration defines a macro."""
  return any(b.selector == MACRO and b.scope == macro for b in _loaded)


def value(macro: str) -> Any:
  """Builds the value of a macro such as `MODEL`.

  Raises:
    UserError: The macro is not defined.
  """
  if not defines(macro):
    known = [b.scope for b in _loaded if b.selector == MACRO]
    raise UserError(
      f"the configuration defines no {macro!r}{nearest(macro, known)}"
    )
  return _without_gin_trace(gin.get_configurable(f"{macro}/{MACRO}"))


def build(
  macro: str,
  gin_files: Sequence[str],
  bindings: Sequence[str] = (),
  **options: Any,
) -> Any:
  """Builds the value of a macro in other files; the configuration stays.

  Args:
    macro: The name of the macro, such as `MODEL`.
    gin_files: The names of gin files, as `load` takes them.
    bindings: The overrides; the macro has to reach each of them.
    **options: The arguments `search_paths` and `allow_unused` of `load`.

  Raises:
    UserError: `load` refuses the files or bindings.
  """
  with kept():
    load(gin_files, bindings, root=macro, **options)
    return value(macro)


@contextlib.contextmanager
def kept() -> Iterator[None]:
  """Restores the configuration at the end of the context."""
  global _loaded_root
  loaded, imports, root = [*_loaded], [*_loaded_imports], _loaded_root
  try:
    yield
  finally:
    _bind(loaded)
    _loaded_imports[:] = imports
    _loaded_root = root


def operative_config(*roots: str) -> str:
  """Returns the bindings that roots reached, as text that `load` reads again.

  Args:
    *roots: The names of configurables or macros; the root of `load` by default.
  """
  return write(
    _reach(*(roots or (_loaded_root,))),
    _loaded_imports,
    reading.task_modules(),
  )


def text_of(root: str, parameters: Collection[str]) -> str:
  """Returns the bindings of parameters of a root and of all that they reached.

  Parameters that are marked as places are left out.

  Args:
    root: The name of a configurable.
    parameters: The names of its parameters.
  """
  selector = registry.find(root, "root").selector
  bindings = [
    binding
    for binding in _loaded
    if binding.selector != selector
    or binding.parameter in parameters
    and registry.mark(root, binding.parameter) != Effect.PLACE
  ]
  reached = _follow(ReachedBindings(bindings, overridden=False), [root])
  return write(reached, _loaded_imports)


def config_hash(*roots: str) -> str:
  """Returns twelve hexadecimal digits that equal runs share.

  Settings that are marked as places do not count.
  """
  return digest(operative_config(*roots))


def setting(parameter: str) -> Any:
  """Returns the value of the root's parameter, macros followed, unbuilt."""
  reached = _reach(_loaded_root)
  root = registry.find(_loaded_root, "root")
  bindings = reached.visits[(), root.selector, True].bindings
  if parameter not in bindings:
    return registry.parameters(root)[parameter].default
  return reached.resolved(bindings[parameter].value)


def _read(
  gin_files: Sequence[str],
  bindings: Sequence[str],
  search_paths: Sequence[str],
) -> list[Binding]:
  read = []
  for name in gin_files:
    read += reading.read_file(name, search_paths)
  return [*read, *map(reading.read_override, bindings)]


def _bind(bindings: Sequence[Binding]) -> None:
  gin.clear_config()
  for binding in bindings:
    gin.bind_parameter(binding.key, binding.value)
  _loaded[:] = bindings
  _reached.clear()


def _check(root: str | None, given: Sequence[str]) -> None:
  reached = _reach(root)
  checks.check_macros(reached, _loaded)
  checks.check_types(reached)
  checks.check_sizes(reached)
  if root is None:
    return
  _check_unused(root)
  checks.check_required(reached, given)


def _check_unused(root: str) -> None:
  reached = _reach(root)
  runs = [name for name in (*ROOTS, *HEADS) if registry.exists(name)]
  if registry.exists(root):
    ever = _follow(ReachedBindings(_loaded, overridden=True), {root, *runs})
    checks.check_unused(_loaded, ever.used, reached.used, root)
  else:
    # A model is looked at with the files and overrides of a whole run.
    now = (
      reached.used
      | _follow(ReachedBindings(_loaded, overridden=False), runs).used
    )
    in_files = {binding.key for binding in _loaded if not binding.override}
    checks.check_unused(_loaded, now | in_files, now, root)


def _reach(*roots: str | None) -> ReachedBindings:
  """Returns what roots reach; None stands for everything that is bound."""
  if roots not in _reached:
    _reached[roots] = _walk(*roots)
  return _reached[roots]


def _walk(*roots: str | None) -> ReachedBindings:
  reached = ReachedBindings(_loaded, overridden=False)
  for root in roots:
    if root is None:
      for binding in _loaded:
        scopes = tuple(filter(None, binding.scope.split("/")))
        reached.follow(scopes, binding.selector)
    elif registry.exists(root):
      _follow(reached, [root])
    else:
      reached.follow((root,), MACRO)
  return reached


def _follow(reached: ReachedBindings, roots: Iterable[str]) -> ReachedBindings:
  for root in roots:
    for selector in registry.selectors(root):  # Importing none of them.
      reached.follow((), selector)
  return reached


def _without_gin_trace(function: Any) -> Any:
  """Calls a function; removes the text that gin appends to user errors."""
  try:
    return function()
  except (UserError, FloatingPointError) as error:
    kind = UserError if isinstance(error, UserError) else FloatingPointError
    raise kind(sentence(error)) from error
