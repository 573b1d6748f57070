"""Corruptions of text: the input side of the denoising objectives.

A corruption is a frozen dataclass with `raw_length`, `check` and `__call__`
(see `Denoising`). Manifests keep it as JSON, its spec.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from transformer_zoo.corruption.denoising import Denoising
from transformer_zoo.corruption.noise_masks import Everything
from transformer_zoo.corruption.noise_masks import Fragment
from transformer_zoo.corruption.noise_masks import Iid
from transformer_zoo.corruption.noise_masks import RandomPrefix
from transformer_zoo.corruption.noise_masks import RandomSpans
from transformer_zoo.corruption.noise_masks import RegularSpans
from transformer_zoo.corruption.span_corruption import SpanCorruption
from transformer_zoo.corruption.word_spans import WordSpans
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_CLASSES = {
  cls.__name__: cls
  for cls in (
    Denoising,
    Everything,
    Fragment,
    Iid,
    RandomPrefix,
    RandomSpans,
    RegularSpans,
    SpanCorruption,
    WordSpans,
  )
}


def to_spec(corruption: Any) -> dict[str, Any]:
  """Returns JSON `{'name': class name, field: value, ...}`, parts included."""
  spec = {"name": type(corruption).__name__}
  for field in dataclasses.fields(corruption):
    value = getattr(corruption, field.name)
    if dataclasses.is_dataclass(value):
      value = to_spec(value)
    spec[field.name] = list(value) if isinstance(value, tuple) else value
  return spec


def from_spec(spec: Mapping[str, Any]) -> Any:
  """Returns the corruption that `to_spec` wrote down.

  Raises:
    UserError: no corruption has that name, or it has no such field.
  """
  fields = dict(spec)
  name = fields.pop("name", None)
  if name not in _CLASSES:
    raise UserError(
      f"No corruption is named {name!r}" + nearest(str(name), _CLASSES)
    )
  allowed = {field.name for field in dataclasses.fields(_CLASSES[name])}
  for field, value in fields.items():
    if field not in allowed:
      raise UserError(
        f"Corruption {name} has no field {field!r}" + nearest(field, allowed)
      )
    if isinstance(value, Mapping):
      fields[field] = from_spec(value)
  return _CLASSES[name](**fields)
