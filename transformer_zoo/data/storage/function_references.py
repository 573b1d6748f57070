"""Functions that score a task, as references of a manifest.

A reference is {'function': 'module:name', 'kwargs': {...}}. Works on SeqIO's
tasks without importing SeqIO.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import importlib
import json
from typing import Any

import numpy as np

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError


def describe_scoring(task: Any) -> manifest.Scoring | None:
  """Returns the metrics and the post-processing of a `seqio.Task`.

  None if the task has neither. A task without metrics may still have a
  post-processing of predicted texts: only the server of a benchmark knows the
  labels of its diagnostic set. SeqIO distinguishes the kinds of metrics by the
  names of their parameters.

  Raises:
    UserError: a metric has other parameters than (targets, predictions) or
      (targets, scores), or cannot be imported by name; or the task has metric
      objects.
  """
  if objects := getattr(task, "_metric_objs_constructor_args", ()):
    raise UserError(
      f"Task {task.name!r} has metric_objs ({_name_of(objects[0])}), which "
      "cannot be written into a manifest; give it functions of (targets, "
      "predictions) or (targets, scores) as metric_fns."
    )
  try:
    if not task.metric_fns and task.postprocessor is None:
      return None
    refused = [str(metric) for metric in task.predict_with_aux_metric_fns]
  except ValueError as error:
    refused = [str(error).rpartition("Got: ")[2]]
  if refused:
    raise UserError(
      f"Task {task.name!r} has a metric that cannot be called ({refused[0]}); "
      "the parameters of a metric are (targets, predictions) or (targets, "
      "scores)."
    )
  post = task.postprocessor
  return manifest.Scoring(
    postprocess=post and refer_to(post, task.name),
    metrics=_refer_to_all(task.predict_metric_fns, task.name),
    score_metrics=_refer_to_all(task.score_metric_fns, task.name),
  )


def refer_to(function: Callable[..., Any], task: str) -> dict[str, Any]:
  """Returns {'function': 'module:name', 'kwargs': {...}} for a function.

  Raises:
    UserError: the function cannot be imported by name, or its bound arguments
      are not JSON.
  """
  kwargs, inner = {}, function
  while isinstance(inner, functools.partial):
    kwargs = dict(inner.keywords) | kwargs
    if inner.args:
      raise UserError(
        f"Task {task!r} scores with {inner.func!r} bound to positional "
        "arguments; bind them by keyword."
      )
    inner = inner.func
  module = getattr(inner, "__module__", None)
  name = getattr(inner, "__qualname__", "")
  reference = f"{module}:{name}"
  try:
    found = resolve({"function": reference, "kwargs": {}})
    json.dumps(kwargs)
  except (TypeError, UserError):
    found = None
  if found is not inner:
    raise UserError(
      f"Task {task!r} scores with {reference}, which cannot be written into a "
      "manifest; use a function of a module, or functools.partial of one with "
      "JSON keyword arguments."
    )
  return {"function": reference, "kwargs": kwargs}


def resolve(reference: dict[str, Any]) -> Callable[..., Any]:
  """Returns the function of a reference.

  Raises:
    UserError: the function cannot be imported, as after an upgrade that moved
      it.
  """
  module, _, name = reference["function"].partition(":")
  try:
    function = getattr(importlib.import_module(module), name)
  except (AttributeError, ImportError) as error:
    raise UserError(
      f"The prepared data is scored with {reference['function']!r}, which "
      f"cannot be imported here ({error}); run `zoo prepare` again: it keeps "
      "the records and names the functions anew."
    ) from None
  if reference["kwargs"]:
    return functools.partial(function, **reference["kwargs"])
  return function


def _refer_to_all(
  functions: Sequence[Callable[..., Any]], task: str
) -> tuple[dict[str, Any], ...]:
  return tuple(refer_to(function, task) for function in functions)


def _name_of(value: Any) -> str:
  return getattr(value, "__qualname__", type(value).__qualname__)


_OURS = ("transformer_zoo", "tasks", "mixtures")


def resolve_post_processing(reference: Mapping[str, Any]) -> Callable[..., Any]:
  """Returns a function `(answer, example=, is_target=)`.

  Args:
    reference: {'function': 'module:name', 'kwargs': {...}}.

  Raises:
    UserError: the function is not there.
  """
  function = resolve(reference)
  root = reference["function"].partition(":")[0].partition(".")[0]
  if root in _OURS:
    return function
  return functools.partial(_call, function)


def _call(
  function: Callable[..., Any],
  answer: str,
  *,
  example: Mapping[str, Any],
  is_target: bool,
) -> Any:
  return function(answer, example=as_of_seqio(example), is_target=is_target)


def as_of_seqio(value: Any) -> Any:
  """Returns an example or a part of it: bytes for texts, arrays for lists.

  Numbers stay Python's. Lists of different lengths in a list are arrays there.
  """
  if isinstance(value, str):
    return value.encode("utf-8")
  if isinstance(value, Mapping):
    return {name: as_of_seqio(item) for name, item in value.items()}
  if not isinstance(value, (list, tuple)):
    return value
  items = [as_of_seqio(item) for item in value]
  if any(isinstance(item, (bytes, type(None))) for item in items):
    return np.array(items, object)  # as text arrays of NumPy lose last zeros
  if any(isinstance(item, (Mapping, list)) for item in items):
    return items
  shapes = {np.shape(item) for item in items}
  return np.array(items) if len(shapes) < 2 else items
