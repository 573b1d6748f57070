"""Small charts as SVG elements, which take fonts and colours from the page.

Drawn here and not by a plotting library: a report has a hundred of them, is
written anew whenever somebody looks, and is to be small; the classes below are
in `page.css`.
"""

from collections.abc import Callable, Iterable, Sequence
import html
import math

NUM_COLOURS = 8
DASHES = ("", "5 3", "1.5 2.5")

_WIDTH, _HEIGHT = 270, 190
_TOP, _RIGHT = 20, 8
_LETTER = 5.0  # Width of a letter of a tick.
_MOST_TICKS, _MOST_DIGITS = 6, 8
_PADDING = 0.05

Scale = Callable[[float], float]
# Draws with the scales of both axes and the width between them.
Mark = Callable[[Scale, Scale, float], str]


def of_row(place: int) -> tuple[str, str]:
  """Returns the colour of a row, as CSS, and the dashes of its lines.

  Args:
    place: of the row in the study.
  """
  dashes = DASHES[place // NUM_COLOURS % len(DASHES)]
  return f"var(--series-{place % NUM_COLOURS})", dashes


class Chart:
  """Axes and what is drawn between them, in the order of the calls.

  `place` is the place of a row in the study, which decides colour and dashes.
  """

  def __init__(
    self,
    title: str,
    x_label: str = "",
    y_label: str = "",
    *,
    x_ticks: Sequence[float] | None = None,
    log_x: bool = False,
  ):
    """Begins a chart.

    Args:
      title: plain text.
      x_label: plain text; "" leaves the axis without ticks.
      y_label: plain text.
      x_ticks: where ticks are; round numbers unless given.
      log_x: whether the horizontal axis is logarithmic.
    """
    self._title, self._x_label, self._y_label = title, x_label, y_label
    self._x_ticks, self._log_x = x_ticks, log_x
    self._base = _HEIGHT - (32 if x_label else 8)
    self._marks: list[Mark] = []
    self._xs, self._ys = [], []

  def reach(self, left: float, right: float) -> None:
    """Makes the horizontal axis wide enough for two places."""
    self._see([left, right], [])

  def line(self, xs: Sequence[float], ys: Sequence[float], place: int) -> None:
    """Draws a line through points; a single point as a dot."""
    if len(xs) == 1:
      self.dots(xs, ys, place)
      return
    self._see(xs, ys)
    colour, dashes = of_row(place)
    self._marks.append(
      lambda x, y, width: (
        f'<polyline class="line" style="color:{colour}" '
        f'stroke-dasharray="{dashes}" points="{_points(x, y, xs, ys)}"/>'
      )
    )

  def band(
    self,
    xs: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    place: int,
  ) -> None:
    """Fills between two lines."""
    self._see(xs, lows)
    self._see(xs, highs)
    around = [*xs, *reversed(xs)], [*lows, *reversed(highs)]
    colour, _ = of_row(place)
    self._marks.append(
      lambda x, y, width: (
        f'<polygon class="band" style="color:{colour}" '
        f'points="{_points(x, y, *around)}"/>'
      )
    )

  def dots(
    self,
    xs: Sequence[float],
    ys: Sequence[float],
    place: int,
    label: str = "",
  ) -> None:
    """Draws dots, hollow ones for a row whose lines are dashed.

    Args:
      xs: where.
      ys: where.
      place: of the row.
      label: shown over a dot to who points at it.
    """
    self._see(xs, ys)
    colour, dashes = of_row(place)
    kind = "dot hollow" if dashes else "dot"
    title = label and f"<title>{html.escape(label)}</title>"
    self._marks.append(
      lambda x, y, width: "".join(
        f'<circle class="{kind}" style="color:{colour}" r="3" '
        f'cx="{x(a):.1f}" cy="{y(b):.1f}">{title}</circle>'
        for a, b in zip(xs, ys, strict=True)
      )
    )

  def bar(self, at: float, low: float, high: float, place: int) -> None:
    """Draws an upright line, such as a deviation to either side."""
    self._see([at, at], [low, high])
    colour, _ = of_row(place)
    self._marks.append(
      lambda x, y, width: (
        f'<path class="line" style="color:{colour}" '
        f'd="M{x(at):.1f} {y(low):.1f}V{y(high):.1f}"/>'
      )
    )

  def dash(self, at: float, height: float, place: int) -> None:
    """Draws a short level line, such as a mean."""
    self._see([at], [height])
    colour, _ = of_row(place)
    self._marks.append(
      lambda x, y, width: (
        f'<path class="mean" style="color:{colour}" '
        f'd="M{x(at) - 8:.1f} {y(height):.1f}h16"/>'
      )
    )

  def level(self, height: float) -> None:
    """Draws a line across the chart."""
    self._see([], [height])
    self._marks.append(
      lambda x, y, width: (
        f'<path class="zero" d="M0 {y(height):.1f}H{width:.1f}"/>'
      )
    )

  def upright(self, at: float) -> None:
    """Draws a line from the bottom to the top of the chart."""
    self._see([at], [])
    self._marks.append(
      lambda x, y, width: (
        f'<path class="zero" d="M{x(at):.1f} {_TOP}V{self._base}"/>'
      )
    )

  def shade(self, low: float, high: float) -> None:
    """Shades the heights between two values."""
    self._see([], [low, high])
    self._marks.append(
      lambda x, y, width: (
        f'<rect class="shade" x="0" y="{y(high):.1f}" '
        f'width="{width:.1f}" height="{y(low) - y(high):.1f}"/>'
      )
    )

  def svg(self) -> str:
    """Returns the element; "" where nothing was drawn."""
    if not self._marks:
      return ""
    x_low, x_high = _padded(self._xs, math.log2 if self._log_x else float)
    y_low, y_high = _padded(self._ys, float)
    y_ticks = round_numbers(y_low, y_high)
    y_texts = _tick_texts(y_ticks)
    left = 6 + _LETTER * max(map(len, y_texts)) + (14 if self._y_label else 0)
    width, height = _WIDTH - left - _RIGHT, self._base - _TOP

    def x(value):
      value = math.log2(value) if self._log_x else value
      return (value - x_low) / (x_high - x_low) * width

    def y(value):
      return _TOP + (y_high - value) / (y_high - y_low) * height

    x_ticks = []
    if self._x_label:
      x_ticks = self._x_ticks or round_numbers(x_low, x_high)
    grid = [
      f'<path class="grid" d="M0 {y(tick):.1f}H{width:.1f}"/>'
      f'<text class="tick" x="-4" y="{y(tick) + 3:.1f}" text-anchor="end">'
      f"{text}</text>"
      for tick, text in zip(y_ticks, y_texts, strict=True)
    ]
    base = self._base
    grid += [
      f'<path class="grid" d="M{x(tick):.1f} {_TOP}V{base}"/>'
      f'<text class="tick" x="{x(tick):.1f}" y="{base + 12}" '
      f'text-anchor="middle">{text}</text>'
      for tick, text in zip(x_ticks, _tick_texts(x_ticks), strict=True)
    ]
    drawn = "".join([*grid, *(mark(x, y, width) for mark in self._marks)])
    title = html.escape(self._title)
    return (
      f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
      f'aria-label="{title}"><g transform="translate({left:.1f})">{drawn}'
      f'<text class="title" y="11">{title}</text>'
      f'<text class="axis" x="{width / 2:.1f}" y="{_HEIGHT - 5}" '
      f'text-anchor="middle">{html.escape(self._x_label)}</text></g>'
      f'<text class="axis" transform="translate(8 {_TOP + height / 2}) '
      f'rotate(-90)" text-anchor="middle">{html.escape(self._y_label)}</text>'
      "</svg>"
    )

  def _see(self, xs: Iterable[float], ys: Iterable[float]) -> None:
    self._xs.extend(xs)
    self._ys.extend(ys)


def round_numbers(low: float, high: float) -> list[float]:
  """Returns a few multiples of 1, 2 or 5 times a power of ten in a range."""
  power = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
  step = next(
    power * digit
    for digit in (1, 2, 5, 10)
    if (high - low) / (power * digit) <= _MOST_TICKS
  )
  first, last = math.ceil(low / step), math.floor(high / step)
  return [index * step for index in range(first, last + 1)]


def compact(value: float) -> str:
  """Returns a count in three digits: `812 k`, `34.4 M`, `1.23 G`, `4.5 P`."""
  for exponent, unit in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M")):
    if value >= 0.9995 * 10**exponent:
      return f"{_three_digits(value / 10**exponent)} {unit}"
  return f"{value:,.0f}" if value < 1e5 else f"{_three_digits(value / 1e3)} k"


def _three_digits(value: float) -> str:
  return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def _tick_texts(ticks: Sequence[float]) -> list[str]:
  if not ticks:
    return []
  if max(map(abs, ticks)) >= 1e4:
    texts = [compact(tick) for tick in ticks]
  else:
    digits = next(
      digits
      for digits in range(_MOST_DIGITS + 1)
      if digits == _MOST_DIGITS
      or all(math.isclose(round(t, digits), t, abs_tol=1e-9) for t in ticks)
    )
    texts = [f"{tick:.{digits}f}" for tick in ticks]
  return [text.replace("-", "−") for text in texts]


def _padded(values: Sequence[float], scale: Scale) -> tuple[float, float]:
  """The range of what is drawn, and a little more."""
  low, high = scale(min(values)), scale(max(values))
  more = (high - low) * _PADDING or abs(low) * _PADDING or 1.0
  return low - more, high + more


def _points(x: Scale, y: Scale, xs, ys) -> str:
  return " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(xs, ys, strict=True))
