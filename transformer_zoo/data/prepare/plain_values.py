"""Values as texts that are the same in every process and tell them apart.

Works on TensorFlow's tensors without importing TensorFlow.
"""

from collections.abc import Iterator, Mapping, Sequence
import enum
import functools
import hashlib
import inspect
import pathlib
import re
import sys
from typing import Any
import weakref

import numpy as np

PRINTED = (bool, int, float, complex, str, bytes, type(None))
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
# Their private attributes say how they have been used.
_OPAQUE = ("seqio", "tensorflow", "tensorflow_datasets", "tensorflow_text")
# Of instances by id: the private attributes that were plain when first asked
# for. Another instance may have the id of one that is gone.
_first: dict[int, tuple[weakref.ref, dict[str, str]]] = {}


def text_of(value: Any) -> str | None:
  """Returns the text of a value that is no container; None where none is known.

  Numbers, strings, patterns, sets, enumerations, paths, arrays, eager tensors,
  and others of the standard library, or with slots, printed without an address.
  """
  if isinstance(value, enum.Enum):
    return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
  if isinstance(value, PRINTED):
    return repr(value)
  if isinstance(value, re.Pattern):
    return f"{value.pattern!r} {value.flags}"
  if isinstance(value, (set, frozenset)):
    texts = map(text_of_all, value)
    return repr(sorted(text for text in texts if text is not None))
  if isinstance(value, pathlib.PurePath):
    return f"path {str(value)!r}"
  if isinstance(value, (np.ndarray, np.generic)):
    return _text_of_array(np.asarray(value))
  if _root(type(value)) == "tensorflow":
    return _text_of_tensor(value)
  return _printed(value)


def text_of_all(value: Any) -> str | None:
  """Returns the text of a value or container; None where an item has none."""
  if isinstance(value, (list, tuple)):
    texts = [text_of_all(item) for item in value]
    return None if None in texts else repr(texts)
  if isinstance(value, dict):
    return text_of_all([*value.items()])
  return text_of(value)


def fields(value: Any) -> Iterator[tuple[str, Any]]:
  """Yields what an instance depends on: its attributes, with their names.

  A cached property follows from the other attributes. Of a private one that is
  plain it is the text, as it was when first asked for: what an object finds
  while it is used it often keeps in itself.
  """
  found = {
    name: item
    for name, item in getattr(value, "__dict__", {}).items()
    if not isinstance(
      inspect.getattr_static(type(value), name, None), functools.cached_property
    )
  }
  plain = _private_texts(value, found)
  for name, item in found.items():
    if not name.startswith("_"):
      yield name, item
    elif name in plain:
      yield name, plain[name]
    elif text_of_all(item) is None and _root(type(value)) not in _OPAQUE:
      yield name, item


def _private_texts(value: Any, found: dict[str, Any]) -> dict[str, str]:
  """Returns the first texts of the private attributes that are plain."""
  if _root(type(value)) in _OPAQUE:
    return {}
  instance, known = _first.get(id(value), (lambda: None, {}))
  if instance() is value:
    return known
  texts = {k: text_of_all(v) for k, v in found.items() if k.startswith("_")}
  texts = {name: text for name, text in texts.items() if text is not None}
  try:
    _first[id(value)] = weakref.ref(value), texts
  except TypeError:  # nothing can refer to it weakly
    pass
  return texts


def _text_of_array(array: np.ndarray) -> str:
  if array.dtype.hasobject:
    content = text_of_all(array.tolist())
  else:
    content = hashlib.sha256(array.tobytes()).hexdigest()
  return f"array {array.dtype} {array.shape} {content}"


def _text_of_tensor(value: Any) -> str | None:
  """Returns the text of an eager tensor, None for all else of TensorFlow."""
  if not hasattr(value, "numpy") or not hasattr(value, "dtype"):
    return None
  try:
    array = np.asarray(value.numpy())
  except (AttributeError, NotImplementedError, ValueError):  # of a graph
    return None
  return f"{value.dtype} {_text_of_array(array)}"


def _printed(value: Any) -> str | None:
  """Returns how Python's own values are printed, unless with an address."""
  if hasattr(value, "__dict__") or isinstance(value, (Mapping, Sequence)):
    return None
  if callable(value) or hasattr(type(value), "__get__"):  # or a descriptor
    return None
  known = _root(type(value)) in sys.stdlib_module_names
  if not known and not hasattr(type(value), "__slots__"):
    return None
  text = repr(value)
  return None if _ADDRESS.search(text) else text


def _root(cls: type) -> str:
  return str(cls.__module__).partition(".")[0]
