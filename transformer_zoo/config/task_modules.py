"""The macro that names the Python modules of a run's own tasks."""

from collections.abc import Sequence

from transformer_zoo.config.reading import Binding
from transformer_zoo.config.reading import MACRO
from transformer_zoo.data import user_modules
from transformer_zoo.errors import UserError

# T5X's name. It is no parameter of anything: `zoo --module` is the same.
TASK_MODULES = "MIXTURE_OR_TASK_MODULE"


def take_out(bindings: Sequence[Binding]) -> list[Binding]:
  """Returns the bindings without the macro, whose modules become the process's.

  Raises:
    UserError: its value is no name of a module.
  """
  left = []
  for binding in bindings:
    if binding.selector == MACRO and binding.scope == TASK_MODULES:
      user_modules.add(_names(binding))
    else:
      left.append(binding)
  return left


def operative() -> str | None:
  """Returns the value of the macro for the modules of this process."""
  return ",".join(user_modules.names()) or None


def _names(binding: Binding) -> list[str]:
  if binding.value is None:  # as T5X's own files have it
    return []
  if not isinstance(binding.value, str):
    raise UserError(
      f"{binding.where}: {TASK_MODULES} is {binding.value!r}; it is the name "
      "of a Python module that registers tasks, as a string, or several with "
      "commas between them"
    )
  return [name.strip() for name in binding.value.split(",") if name.strip()]
