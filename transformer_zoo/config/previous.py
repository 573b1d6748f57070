"""`%previous/NAME`: the value of the macro NAME before a file bound it anew.

With it a gin file wraps the choice of earlier files, whatever that was:
`MODEL = @substitute()` with `substitute.model = %previous/MODEL`.
"""

from collections.abc import Sequence

from transformer_zoo.config import registry
from transformer_zoo.config.reached_bindings import is_macro
from transformer_zoo.config.reading import Binding
from transformer_zoo.config.reading import MACRO
from transformer_zoo.errors import UserError

_PREFIX = "previous/"


def bound(bindings: Sequence[Binding]) -> list[Binding]:
  """Returns the bindings of all `%previous/NAME` that they read and lack.

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
      if is_macro(reference) and name.startswith(_PREFIX):
        if name not in names and name not in found:
          found[name] = _before(name, macros, binding)
  return [*found.values()]


def _before(name: str, macros: Sequence[Binding], reader: Binding) -> Binding:
  """Returns the binding of a macro before the file of a reader."""
  wanted = name.removeprefix(_PREFIX)
  history = [macro for macro in macros if macro.scope == wanted]
  # A file that is named twice binds the same again.
  others = [m for m in history if repr(m.value) != repr(history[-1].value)]
  if not others or _file(history[-1]) != _file(reader):
    raise UserError(
      f"{reader.where}: {reader.name} goes on from what {wanted} was before, "
      f"so name {_file(reader)} after all that bind {wanted}: after the files "
      "of the architecture and the run"
    )
  return others[-1]._replace(scope=name)


def _file(binding: Binding) -> str:
  return binding.where.rpartition(":")[0]
