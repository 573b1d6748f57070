"""Names of parameters, layer by layer, whether a model scans or loops.

A model that scans its layers keeps them in one array under `layers`, a model
that loops in one array each under `layers_0`, `layers_1`, ...; a checkpoint may
be of either kind. Where layers alternate, `layers/every_2_from_1` has layers 1,
3, 5, ...
"""

from collections.abc import Iterable, Mapping, Sequence
import re
from typing import NamedTuple

import numpy as np

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_NUMBERED = re.compile(r"\blayers_(\d+)(?=/)")
_OF_HEADS = re.compile(
  r"(heads/[^/]+|pooler|recurrent|encoder/mix|generator|teacher)/"
)
_STACKED = re.compile(r"\blayers(?:/every_(\d+)_from_(\d+))?(?=/)")


class Parameter(NamedTuple):
  """A parameter of a model.

  Attributes:
    shape: Its shape.
    axes: The logical names of its axes.
    dtype: The type of its numbers.
  """

  shape: tuple[int, ...]
  axes: tuple[str | None, ...]
  dtype: np.dtype = np.dtype(np.float32)


def is_stacked(name: str) -> bool:
  """Whether a parameter holds all layers along its first axis."""
  return _STACKED.search(name) is not None


def names_in(name: str, shape: Sequence[int]) -> list[str]:
  """Names of the layers that a parameter holds, or its name if it holds one.

  Args:
    name: The path of the parameter: `decoder/layers/mlp/wi/kernel`,
      `decoder/decoder_norm/scale`.
    shape: The shape of the parameter.
  """
  match = _STACKED.search(name)
  if match is None:
    return [name]
  every, first = (int(number) for number in match.groups(default="0"))
  begin, end = name[: match.start()], name[match.end() :]
  return [
    f"{begin}layers_{first + i * (every or 1)}{end}" for i in range(shape[0])
  ]


def of_every(every: int, first: int) -> str:
  """The name of the array of layers `first`, `first + every`, ..."""
  return f"every_{every}_from_{first}"


def check_expressions(setting: str, expressions: Iterable[str]) -> None:
  """Checks that expressions over names are regular expressions.

  Args:
    setting: The name of the setting that has them, for the message.
    expressions: The expressions.

  Raises:
    UserError: One is no regular expression.
  """
  for expression in expressions:
    try:
      re.compile(expression)
    except re.error as error:
      raise UserError(
        f"{setting}: {expression!r} is no regular expression: {error}"
      ) from error


def check_matches(
  setting: str, expressions: Iterable[str], names: Sequence[str], kind: str
) -> None:
  """Checks that each expression matches a whole name.

  Args:
    setting: As of `check_expressions`.
    expressions: The expressions.
    names: The names of the parameters.
    kind: What the names are of, as "parameter that is trained".

  Raises:
    UserError: One matches no name.
  """
  for expression in expressions:
    if not any(re.fullmatch(expression, name) for name in names):
      raise UserError(
        f"{setting}: {expression!r} matches (as a whole) no {kind}"
        f"{nearest(expression, names)}"
      )


def layer_at_depth(layer: int, number: int, others: int) -> int:
  """The layer of another stack at the same relative depth.

  The middle of layer i of N layers is at (i + 1/2) / N, within layer
  floor((2 i + 1) M / (2 N)) of M layers. Of as many layers that is layer i; of
  twice as many every other one, of half as many each one twice.

  Args:
    layer: i.
    number: N.
    others: M.
  """
  return (2 * layer + 1) * others // (2 * number)


def pattern_of(name: str) -> str:
  """The name that all layers share: `decoder/layers_*/mlp/wi/kernel`."""
  return _NUMBERED.sub("layers_*", name)


def head_of(name: str) -> str:
  """The part of an encoder that a parameter is of and not all encoders have.

  A head, the pooler, a mix of layers, what is recurrent, the generator of
  replaced tokens or a teacher: `heads/classes` of `heads/classes/out/kernel`,
  `pooler` of `pooler/dense/kernel`; "" of all others.
  """
  match = _OF_HEADS.match(name)
  return match[1] if match else ""


def in_groups(details: Mapping[str, str]) -> list[tuple[str, str]]:
  """Joins the layers of a parameter that have the same detail.

  Args:
    details: The detail of each parameter, by its name.

  Returns:
    (name, detail) in order, where the name of several layers is
    `decoder/layers_{0..11}/mlp/wi/kernel`.
  """
  groups = {}
  for name, detail in details.items():
    groups.setdefault((pattern_of(name), detail), []).append(name)
  return [
    (_joined(pattern, names), detail)
    for (pattern, detail), names in groups.items()
  ]


def _joined(pattern: str, names: Sequence[str]) -> str:
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
