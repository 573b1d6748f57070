"""The post-processing that a manifest refers to, called as SeqIO calls it.

Prepared examples have texts and lists. Our functions take them as they are;
those of users are written for what SeqIO gives, bytes and arrays.
"""

from collections.abc import Callable, Mapping
import functools
from typing import Any

import numpy as np

from transformer_zoo.data.storage import function_references

_OURS = ("transformer_zoo", "tasks", "mixtures")


def resolve(reference: Mapping[str, Any]) -> Callable[..., Any]:
  """Returns a function `(answer, example=, is_target=)`.

  Args:
    reference: {'function': 'module:name', 'kwargs': {...}}.

  Raises:
    UserError: the function is not there.
  """
  function = function_references.resolve(reference)
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
