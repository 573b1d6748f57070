"""Adafactor's second moments in T5X checkpoints and here.

For every parameter T5X keeps v_row, v_col, v and m, of which those that are not
used are [0.]. Which means are the rows is decided in two ways there
(T5X `adafactor.py`):

- a matrix is factored if both sides have 128; its rows are the shorter side, or
  the first of equal ones;
- stacked layers and kernels with an axis of heads are always factored, by
  `standard_logical_factor_rules`: their rows are the axis 'embed', their
  columns the others. Vectors and tables of relative positions are not.

Here the rows are the first axis of a matrix, whatever its shape. Both make the
same update: the product of the factors is the same but for rounding.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x.links import Parameter
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import to_ours
from transformer_zoo.tensors.links import to_theirs

STATES = "state/param_states/"
UNUSED = np.zeros(1, np.float32)
MIN_DIM_SIZE_TO_FACTOR = 128


def _rows_are_columns(parameter: Parameter) -> bool:
  """Whether the v_row of theirs is what v_col is here."""
  own = [parameter.shape[i] for i in parameter.own_axes]
  if parameter.layers is None and len(own) == 2:
    return own[0] > own[1]
  return parameter.ours.endswith(("out/kernel", "wo/kernel"))


def _factors(parameter: Parameter) -> tuple[tuple, ...]:
  """Their name of each factor, our name, and the axes that it keeps."""
  names = ("/v_row", "/v_col")
  theirs = reversed(names) if _rows_are_columns(parameter) else names
  axes = (parameter.row_axes, parameter.column_axes)
  return tuple(zip(theirs, names, axes, strict=True))


def _links(parameter: Parameter, factored: bool) -> list[Link]:
  if not factored:
    return [parameter.link(STATES, "/v", "/v")]
  return [
    parameter.link(STATES, theirs, ours, axes)
    for theirs, ours, axes in _factors(parameter)
  ]


def read(
  parameters: Iterable[Parameter], tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
  """The moments of all parameters: `<parameter>/v_row` and `v_col`, or `v`.

  Args:
    parameters: The parameters of the network.
    tensors: all of the checkpoint.

  Raises:
    UserError: the state is of another optimizer, has momentum, or is factored
      by other rules than T5X's.
  """
  found = []
  for parameter in parameters:
    name = f"{STATES}{parameter.theirs}"
    shapes = {}
    for moment in ("v_row", "v_col", "v", "m"):
      if f"{name}/{moment}" not in tensors:
        raise UserError(
          f"the T5X checkpoint has no {name}/{moment}: its optimizer was not "
          "Adafactor, or left that parameter out; only parameters can be read"
        )
      shapes[moment] = tuple(tensors[f"{name}/{moment}"].shape)
    if shapes["m"] != UNUSED.shape:
      raise UserError(
        f"the T5X checkpoint has momentum ({name}/m), which Adafactor has not "
        "here; only its parameters can be read"
      )
    links = _links(parameter, factored=shapes["v_row"] != UNUSED.shape)
    for link in links:
      there = tuple(tensors[link.theirs].shape)
      if there != link.layout.whole(len(link.ours)):
        raise UserError(
          f"{link.theirs} of the T5X checkpoint has the shape {there} instead "
          f"of {link.layout.whole(len(link.ours))}: it was factored by other "
          "rules than T5X's own; only the parameters can be read"
        )
    found += links
  return to_ours(found, tensors)


def write(
  parameters: Iterable[Parameter], moments: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
  """Their state: what T5X keeps as arrays, and what it keeps in the index.

  Args:
    parameters: The parameters of the network.
    moments: The moments by our names, as `read` returns them.

  Raises:
    UserError: T5X factors what is whole in these moments, or the reverse, or
      they are not of all parameters.
  """
  arrays, values = {}, {}
  for parameter in parameters:
    if without := [n for n in parameter.names if not _has(moments, n)]:
      raise UserError(
        f"there are no moments of {without[0]!r}, and T5X keeps moments "
        "of all parameters"
      )
    factored = f"{parameter.names[0]}/v_row" in moments
    _check(parameter, factored)
    theirs = to_theirs(_links(parameter, factored), moments)
    name = f"{STATES}{parameter.theirs}"
    unused = {
      f"{name}/{moment}": Tensor.of(UNUSED)
      for moment in ("v_row", "v_col", "v", "m")
    }
    if factored:
      values |= unused | theirs
    else:
      arrays |= theirs
      values |= {key: unused[key] for key in unused.keys() - theirs.keys()}
  return arrays, values


def _has(moments: Mapping[str, Tensor], name: str) -> bool:
  return f"{name}/v" in moments or f"{name}/v_row" in moments


def _check(parameter: Parameter, factored: bool) -> None:
  """Raises UserError where T5X's rules say otherwise."""
  own = [parameter.shape[i] for i in parameter.own_axes]
  if parameter.layers is not None:
    expected = len(own) > 1 and "relpos_bias" not in parameter.ours
    rule = "all matrices of scanned layers but their biases by distance"
  else:
    expected = len(own) == 2 and min(own) >= MIN_DIM_SIZE_TO_FACTOR
    rule = f"matrices whose sides have {MIN_DIM_SIZE_TO_FACTOR}"
  if factored != expected:
    kinds = ("whole", "factored")
    raise UserError(
      f"T5X keeps the moments of {parameter.ours!r} of shape {tuple(own)} "
      f"{kinds[expected]}, and these are {kinds[factored]}: it factors {rule}"
    )
