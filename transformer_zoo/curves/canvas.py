"""Curves as text: eight dots in every character, in Braille."""

from collections.abc import Sequence
import dataclasses

import numpy as np
from rich.text import Text

COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue")
_BRAILLE = 0x2800
# The bits of the dots of a character, [rows, columns].
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_LABEL = 9  # Characters left of the axis.


@dataclasses.dataclass(frozen=True)
class Curve:
  """What is drawn as one line.

  Attributes:
    steps: ascending, float64 [n].
    values: float64 [n]; those that are not finite are gaps.
    colour: of rich.
  """

  steps: np.ndarray
  values: np.ndarray
  colour: str


def draw(
  curves: Sequence[Curve], *, width: int, height: int, log: bool = False
) -> Text:
  """Draws curves with their axes.

  Args:
    curves: the later ones lie above.
    width: in characters.
    height: in lines.
    log: a logarithmic axis of values, which leaves out those that are not
      positive.
  """
  curves = [_drawable(curve, log) for curve in curves]
  curves = [curve for curve in curves if len(curve.values)]
  columns, lines = max(width - _LABEL - 1, 8), max(height - 2, 3)
  if not curves:
    return Text("no values yet".center(width))
  steps = _range([curve.steps for curve in curves])
  values = _range([curve.values for curve in curves])
  bits = np.zeros((lines, columns), int)
  owner = np.zeros((lines, columns), int)
  for number, curve in enumerate(curves):
    x = _scale(curve.steps, steps, 2 * columns)
    y = 4 * lines - 1 - _scale(curve.values, values, 4 * lines)
    rows, places = _line(*_thinned(x, y))
    np.bitwise_or.at(
      bits, (rows // 4, places // 2), _DOTS[rows % 4, places % 2]
    )
    owner[rows // 4, places // 2] = number
  return _text(bits, owner, curves, steps, values, log)


def _drawable(curve: Curve, log: bool) -> Curve:
  kept = np.isfinite(curve.values) & (~np.array(log) | (curve.values > 0))
  values = curve.values[kept]
  return Curve(
    curve.steps[kept], np.log10(values) if log else values, curve.colour
  )


def _range(series: Sequence[np.ndarray]) -> tuple[float, float]:
  every = np.concatenate(series)
  return float(every.min()), float(every.max())


def _scale(numbers: np.ndarray, ends: tuple[float, float], dots: int):
  """The dots of numbers, int64 [n]; in the middle where all are equal."""
  low, high = ends
  if high == low:
    return np.full(len(numbers), dots // 2)
  # Halves first: the difference of two large numbers may be infinite.
  share = (numbers / 2 - low / 2) / (high / 2 - low / 2)
  return np.rint(share * (dots - 1)).astype(int)


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """At most four points of each column: first, highest, lowest, last.

  However many there are, no spike is lost.
  """
  starts = np.flatnonzero(np.diff(x, prepend=-1))
  ends = np.append(starts[1:], len(x)) - 1
  kept = [
    y[starts],
    np.minimum.reduceat(y, starts),
    np.maximum.reduceat(y, starts),
    y[ends],
  ]
  return np.repeat(x[starts], len(kept)), np.stack(kept, axis=1).ravel()


def _line(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """All dots of the line through points: rows and columns."""
  rows, columns = [y[:1]], [x[:1]]
  for x0, y0, x1, y1 in zip(x, y, x[1:], y[1:], strict=False):
    number = max(abs(x1 - x0), abs(y1 - y0))
    if number:
      share = np.arange(1, number + 1) / number
      columns.append(np.rint(x0 + share * (x1 - x0)).astype(int))
      rows.append(np.rint(y0 + share * (y1 - y0)).astype(int))
  return np.concatenate(rows), np.concatenate(columns)


def _text(bits, owner, curves, steps, values, log) -> Text:
  lines, columns = bits.shape
  text = Text()
  for row in range(lines):
    label = ""
    if row in (0, lines // 2, lines - 1):
      share = 1 - row / (lines - 1)
      value = values[0] * (1 - share) + values[1] * share
      label = number(10**value if log else value)
    text.append(f"{label:>{_LABEL}}│", "dim")
    for column in range(columns):
      if bits[row, column]:
        colour = curves[owner[row, column]].colour
        text.append(chr(_BRAILLE + bits[row, column]), colour)
      else:
        text.append(" ")
    text.append("\n")
  text.append(" " * _LABEL + "└" + "─" * columns + "\n", "dim")
  ends = f"{steps[0]:,.0f}", f"step {steps[1]:,.0f}"
  gap = max(columns - len(ends[0]) - len(ends[1]), 1)
  text.append(" " * (_LABEL + 1) + ends[0] + " " * gap + ends[1], "dim")
  return text


def number(value: float) -> str:
  """A number that fits left of the axis."""
  text = f"{value:.3g}"
  return text if len(text) <= _LABEL else f"{value:.1e}"
