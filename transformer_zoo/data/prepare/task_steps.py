"""The steps of a SeqIO task: those that run once, and the corruption.

SeqIO gives a step the arguments that its parameters name: the lengths of a run
as `sequence_length`, and new random numbers in each epoch as `seed` or `seeds`.
Prepared examples are written once, for runs of any lengths.
"""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import inspect
from typing import Any, TYPE_CHECKING

from transformer_zoo.data.prepare.sentences import TokenizeSentences
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import seqio

Steps = Sequence[Callable[..., Any]]
_RANDOM = {"seed", "seeds"}


def divide_steps(
  task: "seqio.Task",
) -> tuple[list[Callable[..., Any]], CorruptionStep | None, bool]:
  """Returns the steps to run once, the corruption, and eos_after_trim.

  Raises:
    UserError: the corruption is not followed by one EOS step, or a step to run
      needs the lengths of a run.
  """
  import seqio  # pylint: disable=g-import-not-at-top

  steps = [
    step
    for step in task.preprocessors
    if not isinstance(step, seqio.CacheDatasetPlaceholder)
  ]
  eos_after_trim = seqio.preprocessors.append_eos_after_trim in steps
  where = [i for i, s in enumerate(steps) if isinstance(s, CorruptionStep)]
  allowed = (
    seqio.preprocessors.append_eos,
    seqio.preprocessors.append_eos_after_trim,
  )
  run = steps[: where[0]] if where else steps
  check_lengths(task.name, run, allowed)
  if not where:
    return steps, None, eos_after_trim
  after = steps[where[0] + 1 :]
  if len(after) != 1 or after[0] not in allowed:
    raise UserError(
      f"Task {task.name!r} must have one step after its corruption, "
      "append_eos_after_trim or append_eos: the loader does the corruption and "
      "knows no other step."
    )
  return run, steps[where[0]], eos_after_trim


@dataclasses.dataclass(frozen=True)
class TextSteps:
  """The steps of a task of unlabelled text, as settings.

  Attributes:
    key: the feature of the source that is the text.
    language: The language of the sentences that the text is split into; None if
      it is not split.
  """

  key: str
  language: str | None = None


def find_text_steps(steps: Steps) -> TextSteps | None:
  """Returns what the steps before a corruption do; None where it is more."""
  import seqio  # pylint: disable=g-import-not-at-top

  if len(steps) != 2:
    return None
  (rekey, arguments), (tokenize, options) = map(_unbind, steps)
  names = arguments.get("key_map", {})
  key = names.get("targets")
  others = [name for feature, name in names.items() if feature != "targets"]
  if rekey is not seqio.preprocessors.rekey or not key or any(others):
    return None
  if options.keys() - {"copy_pretokenized"}:  # such as EOS after each document
    return None
  if tokenize is seqio.preprocessors.tokenize:
    return TextSteps(key)
  if isinstance(tokenize, TokenizeSentences):
    return TextSteps(key, tokenize.language)
  return None


def find_form(steps: Steps) -> dict[str, Any] | None:
  """Returns what the steps' pieces of an encoder's example are, or None."""
  found = [step.form for step in steps if hasattr(step, "form")]
  return found[-1] if found else None


def find_template(task: "seqio.Task") -> str | None:
  """Returns the name of the set of which a task is a template, or None.

  Templates behind different numbers of demonstrations are different sets.
  """
  name = getattr(task.source, "template_of", None)
  shots = [s.num_shots for s in task.preprocessors if hasattr(s, "num_shots")]
  return f"{name} {shots[-1]}-shot" if name and shots else name


def check_lengths(task_name: str, steps: Steps, known: Steps) -> None:
  """Checks that no step needs the lengths of a run.

  Args:
    task_name: The name of the task.
    steps: The preprocessors of the task that are run once.
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
        "it cuts (transformer_zoo/data/trimming.py has the rules)."
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
  except (TypeError, ValueError):  # compiled code has none
    return set()
  while isinstance(step, functools.partial):
    names -= step.keywords.keys()
    step = step.func
  return names


def _name(step: Callable[..., Any]) -> str:
  while isinstance(step, functools.partial):
    step = step.func
  return getattr(step, "__qualname__", type(step).__qualname__)


def _unbind(step: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
  """Returns the function of a step and the arguments bound to it."""
  if isinstance(step, functools.partial) and not step.args:
    return step.func, step.keywords
  return step, {}
