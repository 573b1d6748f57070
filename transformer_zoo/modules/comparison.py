"""A comparison of what two models compute from the same parameters.

Shapes do not show everything: ReLU and GELU, a scale that is on or off, another
epsilon leave every parameter as it is.
"""

from collections.abc import Iterator, Mapping
import dataclasses
import functools
import inspect
import re
from typing import Any

from flax import linen as nn

# Fields that change what training does, or how and where it is computed, but
# not what a model computes from its parameters. `pad_id` follows the
# vocabulary, which a run checks by itself.
_ASIDE = re.compile(
  r".*dropout|.*_init|dtype|scan|remat|kernel|kernel_axes|pad_id"
)
# Fields of Linen's own.
_LINEN = frozenset({"parent", "name"})


def differences(model: nn.Module, other: nn.Module) -> dict[str, str]:
  """Finds the fields by which two models compute something else.

  Dropout, initialisers, dtypes, kernels, scan and remat do not count.

  Args:
    model: a tree of parts.
    other: another one.

  Returns:
    Field -> "VALUE instead of OTHER VALUE", as in
    {'encoder.layer_stack.layer.mlp.d_ff': "16 instead of 32"}; empty where they
    compute the same.
  """
  return dict(_differences("", model, other))


def _differences(path: str, a: Any, b: Any) -> Iterator[tuple[str, str]]:
  if isinstance(a, nn.Module) and type(a) is type(b):
    fields, others = _fields(a), _fields(b)
    for name, value in fields.items():
      below = f"{path}.{name}" if path else name
      yield from _differences(below, value, others[name])
  elif isinstance(a, tuple | list) and _same_length(a, b):
    for i, pair in enumerate(zip(a, b, strict=True)):
      yield from _differences(f"{path}[{i}]", *pair)
  elif isinstance(a, Mapping) and isinstance(b, Mapping):
    for name in {**a, **b}:
      yield from _differences(f"{path}.{name}", a.get(name), b.get(name))
  elif _identity(a) != _identity(b):
    yield path or "model", f"{_shown(a)} instead of {_shown(b)}"


def _fields(module: nn.Module) -> Mapping[str, Any]:
  """Returns the fields that a module computes by; others have defaults."""
  found = {
    field.name: getattr(module, field.name)
    for field in dataclasses.fields(module)
    if field.name not in _LINEN and not _ASIDE.fullmatch(field.name)
  }
  if "num_kv_heads" in found and found["num_kv_heads"] is None:
    found["num_kv_heads"] = found["num_heads"]
  if "scale_size" in found and found["scale_size"] is None:
    found["scale_size"] = found["head_dim"]
  return found


def _same_length(a: Any, b: Any) -> bool:
  return isinstance(b, tuple | list) and len(a) == len(b)


def _identity(value: Any) -> Any:
  """Returns a value equal for equal meaning; gin wraps functions anew."""
  if isinstance(value, functools.partial):
    arguments = map(repr, (value.args, sorted(value.keywords.items())))
    return (_identity(value.func), *arguments)
  if callable(value) and not dataclasses.is_dataclass(value):
    function = inspect.unwrap(value)
    return function.__module__, function.__qualname__
  return value


def _shown(value: Any) -> str:
  if isinstance(value, nn.Module):
    return type(value).__name__
  if callable(value) and not dataclasses.is_dataclass(value):
    function = getattr(value, "func", value)
    return inspect.unwrap(function).__name__
  return repr(value)
