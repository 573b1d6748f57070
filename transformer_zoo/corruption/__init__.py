"""Corruptions of text: the input side of the denoising objectives.

A corruption is a frozen dataclass with `raw_length`, `check` and `__call__`
(see `SpanCorruption`). Manifests keep it as a JSON dict, its spec.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from transformer_zoo.corruption.span_corruption import SpanCorruption
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_CORRUPTIONS = {"SpanCorruption": SpanCorruption}


def to_spec(corruption: Any) -> dict[str, Any]:
  """Returns the JSON dict `{'name': class name, field: value, ...}`."""
  return {"name": type(corruption).__name__} | dataclasses.asdict(corruption)


def from_spec(spec: Mapping[str, Any]) -> Any:
  """Returns the corruption that `to_spec` wrote down.

  Raises:
    UserError: no corruption has that name, or it has no such field.
  """
  fields = dict(spec)
  name = fields.pop("name", None)
  if name not in _CORRUPTIONS:
    raise UserError(
      f"No corruption is named {name!r}" + nearest(str(name), _CORRUPTIONS)
    )
  allowed = {field.name for field in dataclasses.fields(_CORRUPTIONS[name])}
  for field in fields:
    if field not in allowed:
      raise UserError(
        f"Corruption {name} has no field {field!r}" + nearest(field, allowed)
      )
  return _CORRUPTIONS[name](**fields)
