"""gin: load files and overrides, check them, explain mistakes, write back.

`load` reads and checks; `call` runs a root such as `train`; `value` builds
what a macro stands for, `build` does in another configuration;
`operative_config`, `config_hash` and `difference` say which one a run has,
`setting` what a parameter of it is.
"""

from collections.abc import Collection, Iterable, Sequence
import functools
from typing import Any

import gin

from transformer_zoo.config import checks
from transformer_zoo.config import previous
from transformer_zoo.config import reading
from transformer_zoo.config import registry
from transformer_zoo.config import task_modules
from transformer_zoo.config.comparison import difference
from transformer_zoo.config.comparison import digest
from transformer_zoo.config.reach import Reach
from transformer_zoo.config.reading import Binding
from transformer_zoo.config.reading import bound
from transformer_zoo.config.reading import folders
from transformer_zoo.config.reading import MACRO
from transformer_zoo.config.writing import write
from transformer_zoo.effects import Effect
from transformer_zoo.errors import nearest
from transformer_zoo.errors import sentence
from transformer_zoo.errors import UserError

__all__ = [
  "bound",
  "build",
  "call",
  "config_hash",
  "difference",
  "folders",
  "load",
  "operative_config",
  "setting",
  "text_of",
  "value",
]

# Kinds of runs: a gin file may configure several, a command runs one.
ROOTS = ("train", "evaluate", "infer", "clean")

_loaded: list[Binding] = []
_loaded_imports: list[str] = []
_loaded_root: str | None = None


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
    gin_files: read in order; each is looked for in the search paths, in the
      current folder and in the gin files that the package ships.
    bindings: overrides `NAME=VALUE`, NAME a macro or `Configurable.parameter`.
    search_paths: folders that come first.
    changes: files (`*.gin`) and overrides in one order, after `gin_files`; what
      an override binds, a file after it may bind again.
    root: the configurable that will run, or a macro such as `MODEL`, of which
      nothing but what it needs is checked; None checks all but what is
      required and what is used.
    given: parameters of the root that `call` will pass, so that gin need not.
    defaults: `NAME=VALUE` for what nothing else binds; used or not.
    allow_unused: whether `bindings` may be used by nothing.

  Raises:
    UserError: a file is missing or does not parse, a name does not exist, a
      value has the wrong type, something required is missing, or a binding is
      used by nothing.
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
  read = task_modules.take_out(read)
  read += previous.bound(read)
  _bind(read)
  _loaded_imports[:] = imported
  _loaded_root = root
  try:
    _check(root, given)
  except RecursionError as error:
    raise UserError("macros refer to each other in a circle") from error


def call(name: str, **arguments: Any) -> Any:
  """Calls a configurable, such as `train`, with what gin binds to it."""
  registry.load(name)
  return _without_gin_trace(
    functools.partial(gin.get_configurable(name), **arguments)
  )


def value(macro: str) -> Any:
  """Builds what a macro stands for, as `MODEL`.

  Raises:
    UserError: nothing defines the macro.
  """
  macros = [b.scope for b in _loaded if b.selector == MACRO]
  if macro not in macros:
    raise UserError(
      f"the configuration defines no {macro!r}{nearest(macro, macros)}"
    )
  return _without_gin_trace(gin.get_configurable(f"{macro}/{MACRO}"))


def build(
  macro: str,
  gin_files: Sequence[str],
  bindings: Sequence[str] = (),
  **options: Any,
) -> Any:
  """Builds what a macro stands for in other files; what is loaded stays so.

  Args:
    macro: `MODEL`.
    gin_files: see `load`.
    bindings: see `load`; each has to be used by the macro.
    **options: `search_paths` and `allow_unused` of `load`.

  Raises:
    UserError: see `load`.
  """
  global _loaded_root
  kept, kept_imports, kept_root = [*_loaded], [*_loaded_imports], _loaded_root
  try:
    load(gin_files, bindings, root=macro, **options)
    return value(macro)
  finally:
    _bind(kept)
    _loaded_imports[:] = kept_imports
    _loaded_root = kept_root


def operative_config(*roots: str) -> str:
  """The bindings that roots reach, as text that `load` reads again.

  Args:
    *roots: by default the root that was loaded.
  """
  return write(
    _reach(*(roots or (_loaded_root,))),
    _loaded_imports,
    task_modules.operative(),
  )


def text_of(root: str, parameters: Collection[str]) -> str:
  """The bindings of some parameters of a root and of all that they reach.

  Parameters that are places are left out.

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
  reach = _follow(Reach(bindings, overridden=False), [root])
  return write(reach, _loaded_imports)


def config_hash(*roots: str) -> str:
  """Twelve hexadecimal digits that two runs share if they compute the same.

  Settings that are marked as places do not count.
  """
  return digest(operative_config(*roots))


def setting(parameter: str) -> Any:
  """What the loaded root's parameter is, macros followed; nothing is built."""
  reach = _reach(_loaded_root)
  root = registry.find(_loaded_root, "root")
  bindings = reach.visits[(), root.selector, True].bindings
  if parameter not in bindings:
    return registry.parameters(root)[parameter].default
  return reach.resolved(bindings[parameter].value)


def _bind(bindings: Sequence[Binding]) -> None:
  gin.clear_config()
  for binding in bindings:
    gin.bind_parameter(binding.key, binding.value)
  _loaded[:] = bindings


def _check(root: str | None, given: Sequence[str]) -> None:
  reach = _reach(root)
  checks.check_macros(reach, _loaded)
  checks.check_types(reach)
  checks.check_sizes(reach)
  if root is None:
    return
  runs = [name for name in ROOTS if registry.exists(name)]
  if registry.exists(root):
    ever = _follow(Reach(_loaded, overridden=True), {root, *runs})
    checks.check_unused(_loaded, ever.used, reach.used, root)
  else:
    # A model is looked at with the files and overrides of a whole run.
    now = reach.used | _follow(Reach(_loaded, overridden=False), runs).used
    in_files = {binding.key for binding in _loaded if not binding.override}
    checks.check_unused(_loaded, now | in_files, now, root)
  checks.check_required(reach, given)


def _reach(*roots: str | None) -> Reach:
  """What roots reach; without a root, everything that is bound."""
  reach = Reach(_loaded, overridden=False)
  for root in roots:
    if root is None:
      for binding in _loaded:
        scopes = tuple(filter(None, binding.scope.split("/")))
        reach.follow(scopes, binding.selector)
    elif registry.exists(root):
      _follow(reach, [root])
    else:
      reach.follow((root,), MACRO)
  return reach


def _follow(reach: Reach, roots: Iterable[str]) -> Reach:
  for root in roots:
    for selector in registry.selectors(root):  # Importing none of them.
      reach.follow((), selector)
  return reach


def _without_gin_trace(function: Any) -> Any:
  """Calls; takes off what gin appends to a sentence that users will read."""
  try:
    return function()
  except (UserError, FloatingPointError) as error:
    kind = UserError if isinstance(error, UserError) else FloatingPointError
    raise kind(sentence(error)) from error
