"""What the steps of a SeqIO task ask for that is not there at `prepare`.

SeqIO gives a step what its parameters name: the lengths of a run as
`sequence_length`, and new random numbers in each epoch as `seed` or `seeds`.
Prepared examples are written once, for runs of any lengths.
"""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import inspect
from typing import Any

from transformer_zoo.errors import UserError

Steps = Sequence[Callable[..., Any]]
_RANDOM = {"seed", "seeds"}


def check_lengths(task_name: str, steps: Steps, known: Steps) -> None:
  """Checks that no step needs the lengths of a run.

  Args:
    task_name: of the task.
    steps: those of its preprocessors that are run once.
    known: steps whose work with lengths is done when an example is read.

  Raises:
    UserError: a step has the parameter `sequence_length`, is not known, and
      does not say by `trimming` what it does.
  """
  for step in steps:
    if step in known or hasattr(step, "trimming"):
      continue
    if "sequence_length" in _parameters(step):
      raise UserError(
        f"Task {task_name!r} has the step {_name(step)}, which asks for "
        "sequence_length, but examples are prepared whole and each run cuts "
        "them at its own lengths; leave the parameter out, bind lengths to it "
        "by functools.partial, or say in the step's attribute `trimming` how "
        "it cuts (transformer_zoo/data/features/trimming.py has the rules)."
      )


def find_random(steps: Steps) -> list[str]:
  """Returns the names of the steps that ask for random numbers."""
  return [_name(step) for step in steps if _parameters(step) & _RANDOM]


def _parameters(step: Callable[..., Any]) -> set[str]:
  """Returns the names of what SeqIO may give to a step."""
  if dataclasses.is_dataclass(step):
    return {field.name for field in dataclasses.fields(step)}
  try:
    names = set(inspect.signature(step).parameters)
  except (TypeError, ValueError):  # compiled code tells none
    return set()
  while isinstance(step, functools.partial):
    names -= step.keywords.keys()
    step = step.func
  return names


def _name(step: Callable[..., Any]) -> str:
  while isinstance(step, functools.partial):
    step = step.func
  return getattr(step, "__qualname__", type(step).__qualname__)
