"""Parameters of configurables as their sources write them; nothing is imported.

Names are checked with these before the modules of a run are imported, which
takes some seconds. What a source does not show plainly counts as unknown.
"""

import ast
from collections.abc import Iterator
import functools
import pathlib

import transformer_zoo

_PACKAGE = pathlib.Path(transformer_zoo.__file__).parent
# Bases that add no fields, by the last part of their names.
_WITHOUT_FIELDS = ("Module", "Protocol", "ABC", "Generic", "object")
# Decorators that leave the parameters as they are.
_TRANSPARENT = ("gin.register", "dataclasses.dataclass", "shared.checked")
# The decorator of `train`, whose parameters are the fields of the groups of
# settings in this module.
_BY_FIELDS = "settings.by_fields"
_SETTINGS = "transformer_zoo.runs.settings"


def parameters(module: str, name: str) -> frozenset[str] | None:
  """Returns the names of the parameters of a class or function.

  Args:
    module: The module that defines it, one of the package.
    name: Its name.

  Returns:
    The names; None if the source does not show them.
  """
  try:
    return frozenset(_parameters(module, name))
  except LookupError:
    return None


def _parameters(module: str, name: str) -> Iterator[str]:
  node = _definitions(module)[name]
  decorators = {_dotted(one) for one in node.decorator_list}
  if _BY_FIELDS in decorators:
    yield from _of_settings()
    return
  if unknown := decorators - {*_TRANSPARENT}:
    raise LookupError(f"{name} is decorated by {unknown}")
  if isinstance(node, ast.ClassDef):
    yield from _of_class(module, node)
  elif isinstance(node, ast.FunctionDef):
    yield from _of_function(node)
  else:
    raise LookupError(f"{name} is imported")


def _of_function(node: ast.FunctionDef) -> Iterator[str]:
  if node.args.vararg or node.args.kwarg:
    raise LookupError(f"{node.name} takes any")
  given = node.args
  for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
    yield argument.arg


def _of_class(module: str, node: ast.ClassDef) -> Iterator[str]:
  for each in node.body:
    if isinstance(each, ast.FunctionDef) and each.name == "__init__":
      yield from _of_function(each)
      return
  for base in node.bases:
    name = _dotted(base)
    if name.rpartition(".")[2] in _WITHOUT_FIELDS:
      continue
    yield from _of_base(module, name)
  for each in node.body:
    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
      yield each.target.id


def _of_base(module: str, name: str) -> Iterator[str]:
  room, _, short = name.rpartition(".")
  found = _definitions(module)[room or short]
  if isinstance(found, ast.ClassDef):
    yield from _of_class(module, found)
    return
  if not isinstance(found, ast.ImportFrom):
    raise LookupError(f"{name} is not imported from the package")
  original = next(
    alias.name
    for alias in found.names
    if (alias.asname or alias.name) == (room or short)
  )
  source = f"{found.module}.{original}" if room else found.module
  base = _definitions(source)[short if room else original]
  if not isinstance(base, ast.ClassDef):
    raise LookupError(f"{name} is no class of {source}")
  yield from _of_class(source, base)


def _of_settings() -> Iterator[str]:
  run = _definitions(_SETTINGS)["Run"]
  for group in run.body:
    if isinstance(group, ast.AnnAssign):
      yield from _parameters(_SETTINGS, _dotted(group.annotation))


@functools.cache
def _definitions(module: str) -> dict[str, ast.stmt]:
  """The statements of a module that define or import a name, by the name."""
  stem = _PACKAGE.parent.joinpath(*module.split("."))
  path = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
  if not path.is_file():
    raise LookupError(f"{module} is no module of the package")
  found = {}
  for node in ast.parse(path.read_text(encoding="utf-8")).body:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
      found[node.name] = node
    elif isinstance(node, ast.ImportFrom):
      found |= {alias.asname or alias.name: node for alias in node.names}
  return found


def _dotted(node: ast.expr) -> str:
  """The name of an expression, of what it calls or subscripts."""
  match node:
    case ast.Call(func=inner) | ast.Subscript(value=inner):
      return _dotted(inner)
    case ast.Attribute(value=inner, attr=name):
      return f"{_dotted(inner)}.{name}"
    case ast.Name(id=name):
      return name
  raise LookupError(ast.dump(node))
