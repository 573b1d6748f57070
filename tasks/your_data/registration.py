"""Registration of tasks whose examples are text, and checks of its calls."""

from collections.abc import Callable, Mapping, Sequence
import functools
import inspect
from typing import Any

import seqio
import tensorflow as tf

from tasks.formats.steps import TOKENIZED
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# Other words for the splits that `zoo train` reads, which it would not find.
_MISNAMED = {
  "training": "train",
  "dev": "validation",
  "eval": "validation",
  "val": "validation",
  "valid": "validation",
}


def checks_arguments(
  call: Callable[..., Any],
  options_of: Callable[[type], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
  """Decorates a call of users' modules: wrong arguments raise UserError.

  Args:
    call: A function, or a class whose constructor is called.
    options_of: For a class method with `**options`: from the class to the
      function that takes them.
  """
  function = call.__init__ if isinstance(call, type) else call
  kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
  signature = inspect.signature(function)
  named = [
    name
    for name, parameter in signature.parameters.items()
    if parameter.kind not in kinds and name not in ("self", "cls")
  ]

  @functools.wraps(function)
  def checked(*args: Any, **kwargs: Any) -> Any:
    called, allowed, required = call.__qualname__, named, []
    if options_of is not None:
      called = f"{args[0].__name__}.{call.__name__}"
      options = inspect.signature(options_of(args[0])).parameters.values()
      keywords = [p for p in options if p.kind == p.KEYWORD_ONLY]
      allowed = named + [p.name for p in keywords]
      required = [p.name for p in keywords if p.default is p.empty]
    for name in kwargs:
      if name not in allowed:
        raise UserError(
          f"{called} has no argument {name!r}" + nearest(name, allowed)
        )
    try:
      signature.bind(*args, **kwargs)
      for name in required:
        if name not in kwargs:
          raise TypeError(f"missing a required argument: {name!r}")
    except TypeError as error:
      raise UserError(f"{called}: {error}.") from None
    return function(*args, **kwargs)

  if isinstance(call, type):
    call.__init__ = checked
    return call
  return checked


def add_task(
  name: str,
  source: seqio.DataSource,
  *,
  features: Mapping[str, seqio.Feature],
  before: Sequence[Callable[..., tf.data.Dataset]] = (),
  tokenized: Sequence[Callable[..., tf.data.Dataset]] = TOKENIZED,
  **options: Any,
) -> Any:
  """Registers a task whose examples are text, and returns it.

  Args:
    name: The name of the task.
    source: The source of examples, which have `inputs` and `targets` after
      the steps `before`.
    features: The features `inputs` and `targets`.
    before: The steps before the tokenisation.
    tokenized: The steps from texts to ids.
    **options: Further arguments of `seqio.TaskRegistry.add`.

  Raises:
    UserError: The name is taken or not allowed, or a split has a name that
      `zoo` does not read.
  """
  if name in seqio.TaskRegistry.names():
    raise UserError(f"A task {name!r} exists already; give another name.")
  if not source.splits:
    raise UserError(
      f"Task {name!r} has no split; give splits={{'train': 'FILE', ...}}."
    )
  for split in source.splits:
    if split in _MISNAMED:
      raise UserError(
        f"Task {name!r} has a split {split!r}; call it {_MISNAMED[split]!r}, "
        "which is where `zoo` looks."
      )
  try:
    return seqio.TaskRegistry.add(
      name,
      source=source,
      preprocessors=[*before, *tokenized],
      output_features=features,
      **options,
    )
  except ValueError as error:
    raise UserError(f"Task {name!r} cannot be registered: {error}") from error
