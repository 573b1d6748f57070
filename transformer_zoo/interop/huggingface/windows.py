"""Layers that see everything and layers that see the last tokens alone."""

from collections.abc import Sequence

from flax import linen as nn

from transformer_zoo.errors import UserError

Windows = tuple[int | None, ...]


def of_layers(banded: Sequence[bool], width: int | None) -> Windows:
  """Returns `Stack.windows`: the shortest that, over and over, gives all.

  Args:
    banded: of each layer, whether it sees the last tokens alone.
    width: how many.
  """
  for length in range(1, len(banded)):
    if all(b == banded[i % length] for i, b in enumerate(banded)):
      banded = banded[:length]
      break
  return tuple(width if b else None for b in banded)


def of_stack(kind: str, stack: nn.Module) -> tuple[list[bool], int | None]:
  """Returns of each layer whether it is banded, and the width of the bands.

  Raises:
    UserError: there are several widths.
  """
  repeated = [
    stack.windows[layer % len(stack.windows)]
    for layer in range(stack.num_layers)
  ]
  widths = set(repeated) - {None}
  if len(widths) > 1:
    raise UserError(f"{kind} models have one window, not {stack.windows}")
  return [w is not None for w in repeated], widths.pop() if widths else None
