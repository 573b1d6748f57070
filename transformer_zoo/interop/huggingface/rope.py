"""Rotary positions of `transformers`: `rope_theta` and what stretches it."""

from collections.abc import Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes

# Old files have the first two, new ones the third.
DEFAULTS = {"rope_theta": None, "rope_scaling": None, "rope_parameters": None}
_THETA = 10000.0
_STRETCHING = ("default", "linear", "llama3")
_KNOWN = (
  "rope_theta rope_type type factor low_freq_factor high_freq_factor "
  "original_max_position_embeddings partial_rotary_factor"
).split()


def bindings(kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
  """The bindings of `Rotary`.

  Args:
    kind: model_type of the configuration.
    found: its attributes.

  Raises:
    UserError: the positions are stretched in a way that is not built here.
  """
  given = {
    **(found["rope_scaling"] or {}),
    **(found["rope_parameters"] or {}),
  }
  for name in given:
    attributes.check_allowed(kind, "rope_parameters' attribute", name, _KNOWN)
  way = given.get("rope_type") or given.get("type") or "default"
  attributes.check_allowed(kind, "rope_type", way, _STRETCHING)
  rotated = given.get("partial_rotary_factor", 1.0)
  attributes.check_allowed(kind, "partial_rotary_factor", rotated, (1.0,))
  theta = given.get("rope_theta") or found["rope_theta"] or _THETA
  bound = {"Rotary.theta": float(theta)}
  if way != "default":
    bound["Rotary.stretch"] = float(_required(kind, given, "factor"))
  if way == "llama3":
    bound["Rotary.trained_length"] = given.get(
      "original_max_position_embeddings", found["max_position_embeddings"]
    )
    bound["Rotary.partly_stretched"] = (
      float(_required(kind, given, "low_freq_factor")),
      float(_required(kind, given, "high_freq_factor")),
    )
  return bound


def _required(kind: str, given: Mapping[str, Any], name: str) -> Any:
  if name not in given:
    raise UserError(
      f"config.json of a {kind} model stretches rotary positions and lacks "
      f"their {name!r}"
    )
  return given[name]


def attributes_of(rotary: nn.Module) -> dict[str, Any]:
  """The attributes that a `Rotary` would be read from, old and new."""
  stretching = {"rope_type": "default"}
  if rotary.trained_length is not None:
    fewest, most = rotary.partly_stretched
    stretching = {
      "rope_type": "llama3",
      "factor": rotary.stretch,
      "low_freq_factor": fewest,
      "high_freq_factor": most,
      "original_max_position_embeddings": rotary.trained_length,
    }
  elif rotary.stretch != 1.0:
    stretching = {"rope_type": "linear", "factor": rotary.stretch}
  return {
    "rope_theta": rotary.theta,
    "rope_scaling": None if len(stretching) == 1 else stretching,
    "rope_parameters": {**stretching, "rope_theta": rotary.theta},
  }
