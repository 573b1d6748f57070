"""Reading of gin files and overrides into bindings with their places.

gin's own loader stops at the first unknown name with a message that names
neither the file nor a similar name, and reports a missing include as an
unreadable file. The parser is gin's; files are found and names checked here.
"""

from collections.abc import Iterator, Sequence
import importlib
import pathlib
import re
import sys
import tokenize
from typing import Any, NamedTuple

from gin import config as gin_config
from gin import config_parser

from transformer_zoo.config import earlier_names
from transformer_zoo.config import registry
from transformer_zoo.data import user_modules
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

MACRO = "gin.macro"
# `%previous/NAME` is the value of the macro NAME before a file bound it anew.
PREVIOUS = "previous/"
# Gin files that are installed beside the package.
SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "gin_configs"
_TOO_DEEP = "brackets are nested too deeply; no value is that deep"
_NAME = re.compile(r"[A-Za-z_][\w./]*\w|[A-Za-z_]")
# Words and paths, which a shell user means as strings.
_BARE = re.compile(r"[A-Za-z/~.][\w./:~-]*")


_parsed: dict[tuple[str, str, bool], list[Any]] = {}
_bound: dict[tuple[Any, ...], list[Any]] = {}


class _Unparsed(UserError):
  """gin's grammar does not allow the text."""


class Binding(NamedTuple):
  """One statement `scope/selector.parameter = value`.

  A macro has the selector `gin.macro`, its name is the scope and its
  parameter is `value`, as in gin.
  """

  scope: str
  selector: str
  parameter: str
  value: Any
  where: str
  override: bool
  may_be_unused: bool = False

  @property
  def key(self) -> tuple[str, str, str]:
    """The key of what the statement binds."""
    return self.scope, self.selector, self.parameter

  @property
  def name(self) -> str:
    """The text left of the equals sign."""
    if self.selector == MACRO:
      return self.scope
    scope = self.scope + "/" if self.scope else ""
    return f"{scope}{registry.short_name(self.selector)}.{self.parameter}"


def folders(search_paths: Sequence[str] = ()) -> list[pathlib.Path]:
  """Returns the folders of gin files: the given, the current, the shipped."""
  return [*map(pathlib.Path, search_paths), pathlib.Path("."), SHIPPED]


def find(name: str, search_paths: Sequence[str], wanted_by: str = "") -> str:
  """Returns the path of a gin file.

  Args:
    name: An absolute path, or a path below one of `folders(search_paths)`.
    search_paths: The folders that are searched first.
    wanted_by: The `file:line` of the include, empty for a file of the command.

  Raises:
    UserError: There is no such file.
  """
  if wanted_by and not name.endswith(".gin"):
    raise UserError(
      f"{wanted_by} includes {name!r}, which is no gin file: the names of gin "
      "files end in .gin"
    )
  places = folders(search_paths)
  for folder in places:
    if (folder / name).is_file():
      return str(folder / name)
  known = [str(path.relative_to(SHIPPED)) for path in SHIPPED.glob("**/*.gin")]
  hint = nearest(name, known) if known else ""
  looked = ", ".join(map(str, places))
  subject = f"{wanted_by} includes" if wanted_by else "--gin_file names"
  raise UserError(
    f"{subject} {name!r}, which is in none of the folders {looked}{hint}"
  )


def bound(
  gin_files: Sequence[str], search_paths: Sequence[str] = ()
) -> dict[str, str]:
  """Returns the names that files bind, with the place of the last binding.

  Args:
    gin_files: The names of gin files; the configurables that they name have to
      be registered.
    search_paths: The folders that are searched first.

  Returns:
    {macro or `Configurable.parameter`: `file:line`}, without the macros of
    which a file goes on from the value before, by `%previous/NAME`.

  Raises:
    UserError: see `read_file`.
  """
  read = [b for name in gin_files for b in read_file(name, search_paths)]
  continued = {
    (file_of(binding), "/".join(reference.scopes))
    for binding in read
    for reference in registry.references(binding.value)
  }
  return {
    binding.name: binding.where
    for binding in read
    if (file_of(binding), f"{PREVIOUS}{binding.name}") not in continued
  }


def file_of(binding: Binding) -> str:
  """The file that has a binding."""
  return binding.where.rpartition(":")[0]


def read_file(
  name: str,
  search_paths: Sequence[str] = (),
  wanted_by: str = "",
  outer: tuple[str, ...] = (),
  imported: list[str] | None = None,
) -> list[Binding]:
  """Returns the bindings of a gin file and its includes, in order.

  Args:
    name: The name of the file, as `find` takes it.
    search_paths: The folders that are searched first.
    wanted_by: The `file:line` of the include, empty for a file of the command.
    outer: The files that are being read, to refuse an include of itself.
    imported: A list to which the modules that the files import are added.

  Raises:
    UserError: A file is missing or unreadable, does not parse, or names
      something that does not exist.
  """
  path = find(name, search_paths, wanted_by)
  if path in outer:
    raise UserError(f"{wanted_by} includes {path!r}, which includes it in turn")
  try:
    text = pathlib.Path(path).read_text(encoding="utf-8")
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(f"cannot read the gin file {path!r}: {error}") from error
  bindings = []
  for statement in _bound_statements(text, path):
    if isinstance(statement, Binding):
      bindings.append(statement)
      continue
    where = f"{path}:{statement.location.line_num}"
    if isinstance(statement, config_parser.IncludeStatement):
      bindings += read_file(
        statement.filename, search_paths, where, (*outer, path), imported
      )
    elif isinstance(statement, config_parser.ImportStatement):
      _import(statement.module, where)
      if imported is not None:
        imported.append(statement.module)
  return bindings


def read_change(
  change: str, search_paths: Sequence[str], imported: list[str]
) -> list[Binding]:
  """Returns the bindings of a file (`*.gin`), or the one of `NAME=VALUE`.

  Args:
    change: A change of a study; its strings are quoted as in a gin file.
    search_paths: The folders that are searched first.
    imported: A list to which the modules that the file imports are added.

  Raises:
    UserError: see `read_file`, `read_override`.
  """
  if change.endswith(".gin"):
    return read_file(change, search_paths, "the study", imported=imported)
  name, _, value = map(str.strip, change.partition("="))
  statement = next(_statements(f"{name} = {value}\n", f"--gin.{name}"))
  return [_binding(statement, change, override=True)]


def read_override(text: str) -> Binding:
  """Returns the binding of `NAME=VALUE`, the part after `--gin.`.

  A value that is a bare word or path is taken as a string, and a note on
  standard error says how to quote it.

  Raises:
    UserError: it does not parse, or names something that does not exist.
  """
  name, equals, value = text.partition("=")
  name, value = name.strip(), value.strip()
  where = f"--gin.{name}"
  if not equals or not value or not _NAME.fullmatch(name):
    raise UserError(f"--gin.{text} is no binding: write --gin.NAME=VALUE")
  try:
    statement = next(_statements(f"{name} = {value}\n", where))
  except _Unparsed as error:
    if not _BARE.fullmatch(value):
      raise UserError(
        f"{where} has the value {value}, which gin cannot read; a string is "
        f"""quoted twice, once for the shell: --gin.{name}="'text'\""""
      ) from error
    if not registry.imports_nothing():  # The names are read again after it.
      print(
        f"zoo: note: took {value} as a string; gin wants "
        f"--gin.{name}=\"'{value}'\"",
        file=sys.stderr,
      )
    statement = next(_statements(f"{name} = {value!r}\n", where))
  return _binding(statement, where, override=True)


def read_default(text: str) -> Binding:
  """Returns the binding of a default `NAME=VALUE`, which others replace."""
  return read_override(text)._replace(override=False, may_be_unused=True)


def _bound_statements(text: str, path: str) -> Iterator[Any]:
  """Yields a `Binding` or another statement for each statement of a file.

  The bindings of a file that imports nothing are found once, until a name of
  theirs may mean more.
  """
  key = text, path, registry.known(), registry.imports_nothing()
  if key in _bound:
    yield from _bound[key]
    return
  found, imports = [], False
  for statement in _statements(text, path):
    if isinstance(statement, config_parser.BindingStatement):
      where = f"{path}:{statement.location.line_num}"
      statement = _binding(statement, where, override=False)
    imports |= isinstance(statement, config_parser.ImportStatement)
    found.append(statement)
    yield statement
  if not imports:
    _bound[key] = found


def _statements(text: str, where: str) -> Iterator[Any]:
  """Parses; unknown references stay in the values, for `_binding` to judge.

  A study reads the same files for each of its runs: they are parsed once.
  """
  key = text, where, registry.imports_nothing()
  known = _parsed.get(key)
  if known is not None:
    yield from known
    return
  statements = []
  for statement in _parse(earlier_names.renewed(text), where):
    statements.append(statement)
    yield statement
  # What an import registers, a later statement may refer to.
  if not any(
    isinstance(one, config_parser.ImportStatement) for one in statements
  ):
    _parsed[key] = statements


class _Delegate(gin_config.ParserDelegate):
  """Imports what a reference names; an unknown reference stays in the value."""

  def __init__(self):
    super().__init__(skip_unknown=True)

  def configurable_reference(self, scoped_selector, evaluate):
    name = scoped_selector.rpartition("/")[2]
    if registry.imports_nothing() and registry.selectors(name):
      return registry.NamedReference(scoped_selector, evaluate)
    registry.load(name)
    return super().configurable_reference(scoped_selector, evaluate)


def _parse(text: str, where: str) -> Iterator[Any]:
  try:
    yield from config_parser.ConfigParser(text, _Delegate())
  except RecursionError:
    raise UserError(f"{where}: {_TOO_DEEP}") from None
  except SyntaxError as error:
    reason = error.msg.splitlines()[0].rstrip(".")
    if reason.startswith("malformed node"):
      reason = "A bare word stands where a value is expected; quote a string"
    place = where if where.startswith("--") else f"{where}:{error.lineno}"
    line = (error.text or "").strip()
    raise _Unparsed(f"{place}: {reason}, in the line {line!r}") from error
  except tokenize.TokenError as error:
    if "too many nested" in str(error):  # since Python 3.12
      raise UserError(f"{where}: {_TOO_DEEP}") from None
    raise _Unparsed(
      f"{where}: a bracket or quote is opened and never closed"
    ) from error
  except KeyError as error:
    # gin looks a reference up while it parses: the name means several.
    sentence = str(error).splitlines()[0].strip("\"'.")
    raise UserError(f"{where}: {sentence}") from error


def _import(module: str, where: str) -> None:
  """Runs a gin `import`, by which a user registers parts of their own."""
  if module.startswith("__gin__"):
    raise UserError(
      f"{where}: dynamic registration is not supported; parts are registered "
      "where they are defined, so the line can be removed"
    )
  try:
    importlib.import_module(module)
  except ModuleNotFoundError as error:
    raise UserError(f"{where}: cannot import {module!r}: {error}") from error
  except Exception as error:  # A user's module may raise anything.
    raise UserError(
      f"{where}: cannot import {module!r}: {type(error).__name__}: {error}"
    ) from error


def _binding(
  statement: config_parser.BindingStatement, where: str, *, override: bool
) -> Binding:
  registry.check_references(statement.value, where)
  if _has_nul(statement.value):
    raise UserError(
      f"{where}: a text has a NUL character, which no path and no name holds; "
      "write a quoted text in which \\0 does not stand"
    )
  if not statement.arg_name:
    scope = f"{statement.scope}/" if statement.scope else ""
    name = scope + statement.selector
    return Binding(name, MACRO, "value", statement.value, where, override)
  configurable = registry.find(statement.selector, where)
  allowed = registry.parameters(configurable)
  if statement.arg_name not in allowed and not registry.takes_any(configurable):
    raise UserError(
      f"{where}: {statement.selector} has no parameter "
      f"{statement.arg_name!r}{nearest(statement.arg_name, allowed)}"
    )
  return Binding(
    statement.scope,
    configurable.selector,
    statement.arg_name,
    statement.value,
    where,
    override,
  )


def _has_nul(value: Any) -> bool:
  if isinstance(value, str):
    return "\0" in value
  if isinstance(value, dict):
    return any(map(_has_nul, [*value, *value.values()]))
  return isinstance(value, list | tuple) and any(map(_has_nul, value))


# T5X's name. It is no parameter of anything: `zoo --module` is the same.
TASK_MODULES = "MIXTURE_OR_TASK_MODULE"


def take_task_modules(bindings: Sequence[Binding]) -> list[Binding]:
  """Returns the bindings without the macro, whose modules become the process's.

  Raises:
    UserError: its value is no name of a module.
  """
  left = []
  for binding in bindings:
    if binding.selector == MACRO and binding.scope == TASK_MODULES:
      user_modules.add(_module_names(binding))
    else:
      left.append(binding)
  return left


def task_modules() -> str | None:
  """Returns the value of the macro for the modules of this process."""
  return ",".join(user_modules.names()) or None


def _module_names(binding: Binding) -> list[str]:
  if binding.value is None:  # as T5X's own files have it
    return []
  if not isinstance(binding.value, str):
    raise UserError(
      f"{binding.where}: {TASK_MODULES} is {binding.value!r}; it is the name "
      "of a Python module that registers tasks, as a string, or several with "
      "commas between them"
    )
  return [name.strip() for name in binding.value.split(",") if name.strip()]
