"""Rotary positions of `transformers`: `rope_theta` and what stretches it."""

from collections.abc import Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes

# Old files have the first two, new ones the third.
DEFAULTS = {"rope_theta": None, "rope_scaling": None, "rope_parameters": None}
OPTIONAL = {"rope_theta": float, "rope_scaling": dict, "rope_parameters": dict}
_TABLES = ("rope_scaling", "rope_parameters")
_TRAINED = "original_max_position_embeddings"
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
    UserError: the positions are stretched in a way that is not built here, or
      old and new attributes disagree: `transformers` reads one of them, another
      one in each of its versions.
  """
  tables = [found[name] for name in _TABLES if found[name]]
  thetas = [found["rope_theta"], *(table.get("rope_theta") for table in tables)]
  thetas = [theta for theta in thetas if theta is not None] or [_THETA]
  for theta in thetas:
    attributes.check_type(kind, "rope_theta", theta, float)
  bound = [
    {"Rotary.theta": float(theta), **_stretching(kind, table, found)}
    for theta in thetas
    for table in tables or [{}]
  ]
  if any(other != bound[0] for other in bound):
    given = {
      name: found[name] for name in ("rope_theta", *_TABLES) if found[name]
    }
    raise UserError(
      f"config.json of a {kind} model says of its rotary positions "
      + " and ".join(f"{name}={value!r}" for name, value in given.items())
      + ", which disagree; leave what the model was trained with"
    )
  return bound[0]


def _stretching(
  kind: str, given: Mapping[str, Any], found: Mapping[str, Any]
) -> dict[str, Any]:
  """The bindings of `Rotary` beside its theta, of one table."""
  for name in given:
    attributes.check_allowed(kind, "rope_parameters' attribute", name, _KNOWN)
  way = given.get("rope_type") or given.get("type") or "default"
  attributes.check_allowed(kind, "rope_type", way, _STRETCHING)
  rotated = given.get("partial_rotary_factor", 1.0)
  attributes.check_allowed(kind, "partial_rotary_factor", rotated, (1.0,))
  if way == "default":
    return {}
  bound = {"Rotary.stretch": float(_number(kind, given, "factor"))}
  if way == "llama3":
    usual = {_TRAINED: found["max_position_embeddings"]}
    bound["Rotary.trained_length"] = _number(kind, usual | {**given}, _TRAINED)
    bound["Rotary.partly_stretched"] = (
      float(_number(kind, given, "low_freq_factor")),
      float(_number(kind, given, "high_freq_factor")),
    )
  return bound


def _number(kind: str, given: Mapping[str, Any], name: str) -> Any:
  if name not in given:
    raise UserError(
      f"config.json of a {kind} model stretches rotary positions and lacks "
      f"their {name!r}"
    )
  attributes.check_type(kind, name, given[name], float)
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
