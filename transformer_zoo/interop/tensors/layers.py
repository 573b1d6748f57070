"""Names of parameters by layer: told together, scanned or looped.

A model that scans its layers keeps them in one array under `layers`, one that
loops in arrays of their own under `layers_0`, `layers_1`, ...; a checkpoint may
be of either kind.
"""

from collections.abc import Mapping, Sequence
import re

_NUMBERED = re.compile(r"\blayers_(\d+)(?=/)")
_STACKED = re.compile(r"\blayers(?=/)")


def is_stacked(name: str) -> bool:
  """Whether a parameter holds all layers, its first axis."""
  return _STACKED.search(name) is not None


def names_in(name: str, shape: Sequence[int]) -> list[str]:
  """Names of the layers that lie in a parameter; its own if it is of one.

  Args:
    name: `decoder/layers/mlp/wi/kernel`, `decoder/decoder_norm/scale`.
    shape: of the parameter.
  """
  if not is_stacked(name):
    return [name]
  return [_STACKED.sub(f"layers_{i}", name, count=1) for i in range(shape[0])]


def pattern_of(name: str) -> str:
  """The name that all layers share: `decoder/layers_*/mlp/wi/kernel`."""
  return _NUMBERED.sub("layers_*", name)


def in_groups(details: Mapping[str, str]) -> list[tuple[str, str]]:
  """Puts layers of which the same is told together.

  Args:
    details: name -> what is told of it.

  Returns:
    (name, detail) in order, where the name of several layers is
    `decoder/layers_{0..11}/mlp/wi/kernel`.
  """
  groups = {}
  for name, detail in details.items():
    groups.setdefault((pattern_of(name), detail), []).append(name)
  return [
    (_together(pattern, names), detail)
    for (pattern, detail), names in groups.items()
  ]


def _together(pattern: str, names: Sequence[str]) -> str:
  if len(names) == 1:
    return names[0]
  numbers = sorted(int(_NUMBERED.search(name).group(1)) for name in names)
  runs = []
  for number in numbers:
    if runs and number == runs[-1][1] + 1:
      runs[-1][1] = number
    else:
      runs.append([number, number])
  texts = [str(a) if a == b else f"{a}..{b}" for a, b in runs]
  return pattern.replace("*", "{" + ",".join(texts) + "}")
