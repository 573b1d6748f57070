"""Charts of a report, drawn by matplotlib as SVG that a page contains.

matplotlib draws with placeholder colours, which become variables of the page's
style sheet: a chart follows the light or dark scheme of the page and takes its
font. matplotlib is imported by the first chart.
"""

from collections.abc import Mapping, Sequence
import contextlib
import io
import re
from xml.etree import ElementTree

import markupsafe
import numpy as np

from transformer_zoo.studies.statistics.ladder import Ladder
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.studies.statistics.wording import compact
from transformer_zoo.studies.statistics.wording import number
from transformer_zoo.studies.statistics.wording import signed

NUM_COLOURS = 8
# Lines of rows beyond the colours differ in their dashes, in pixels.
DASHES = ((), (5, 3), (1.5, 2.5))

_WIDTH, _HEIGHT = 270, 190  # Pixels.
_TOP, _RIGHT = 20, 8  # Margins, pixels.
_LETTER = 5.5  # The width of a letter of a tick, pixels.
_DOT = 3  # Radius, pixels.
_VARIABLES = {
  **{f"#0001{index:02x}": f"--series-{index}" for index in range(NUM_COLOURS)},
  "#0000f0": "--ink",
  "#0000f1": "--soft",
  "#0000f2": "--grid",
  "#0000f3": "--paper",
}
_SERIES = tuple(_VARIABLES)[:NUM_COLOURS]
_INK, _SOFT, _GRID, _PAPER = tuple(_VARIABLES)[NUM_COLOURS:]

# "10%", "K = 2^-1", "1/4", ".1", "1e-4", "4,096 repeats": words, a number,
# words. A minus belongs to the number unless a word stands right before it.
_NUMBER = re.compile(
  r"(\D*?)((?:(?<![^\s=])[-\u2212])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?)"
  r"(?:\^([-\u2212]?\d+)|/(\d+))?(?![\d.])(.*)"
)
_FEWEST_VALUES = 3
# The light colours of templates/page.css, for a chart without a page.
_PRINTED_SERIES = ("#0072b2", "#d55e00", "#008f6b", "#b8568f")
_PRINTED_SERIES += ("#b98500", "#3a9bd1", "#6b5bb5", "#7a7a7a")
_PRINTED = {
  "--ink": "#1c2127",
  "--soft": "#5a6470",
  "--grid": "#dde1e6",
  "--paper": "#ffffff",
}
# Colours of our line and of the published one, which is dashed.
_OURS, _PUBLISHED = 0, NUM_COLOURS + 1
# The axis of values that span a larger factor is logarithmic.
_WIDEST_LINEAR = 10


@contextlib.contextmanager
def _style():
  import matplotlib

  with matplotlib.rc_context(
    {
      "axes.edgecolor": _GRID,
      "axes.grid": True,
      "axes.labelcolor": _SOFT,
      "axes.labelsize": 9,
      "axes.spines.left": False,
      "axes.spines.right": False,
      "axes.spines.top": False,
      "axes.titlecolor": _INK,
      "axes.titlelocation": "left",
      "axes.titlesize": 10,
      "axes.titleweight": "bold",
      "axes.titley": 1.0,
      "font.family": "DejaVu Sans",
      "grid.color": _GRID,
      "grid.linewidth": 0.6,
      "lines.linewidth": 1.5,
      "lines.scale_dashes": False,
      "svg.fonttype": "none",
      "text.color": _INK,
      "xtick.color": _SOFT,
      "xtick.labelsize": 9,
      "xtick.major.size": 0,
      "xtick.minor.size": 0,
      "ytick.color": _SOFT,
      "ytick.labelsize": 9,
      "ytick.major.size": 0,
    }
  ):
    yield


@_style()
def seeds(table: Table, column: str) -> markupsafe.Markup:
  """Draws a dot for each seed and a bar at the mean of each row.

  The shaded band is two standard deviations of the baseline to either side.

  Args:
    table: The numbers of a study.
    column: The name of a column.

  Returns:
    An SVG element; "" if no row has a score.
  """
  cells = table.of_column(column)
  if all(cell.mean is None for cell in cells.values()):
    return markupsafe.Markup()
  figure, axes = _axes(column)
  axes.set_xlim(-0.5, len(cells) - 0.5)
  base = cells[table.baseline]
  if base.deviation is not None:
    axes.axhspan(
      base.mean - 2 * base.deviation,
      base.mean + 2 * base.deviation,
      facecolor=_GRID,
      alpha=0.5,
      linewidth=0,
    )
  labels = {}
  for place, (row, cell) in enumerate(cells.items()):
    if cell.mean is not None:
      values = list(cell.values.values())
      (dots,) = axes.plot([place] * len(values), values, **_dots(place))
      dots.set_gid(f"row:{row}")
      labels[f"row:{row}"] = f"{table.labels[row]}: " + ", ".join(
        f"seed {seed} {number(value, cell.decimals)}"
        for seed, value in cell.values.items()
      )
      axes.plot(
        [place - 0.2, place + 0.2],
        [cell.mean] * 2,
        color=_SERIES[place % NUM_COLOURS],
        linewidth=2,
      )
  return _svg(figure, column, labels)


@_style()
def sensitivity(
  table: Table, column: str, name: str, values: Mapping[str, float]
) -> markupsafe.Markup:
  """Draws differences from the baseline over the number in which rows differ.

  Ours is a line with a standard deviation to either side, the published one is
  dashed. Levels need not compare, so both are differences.

  Args:
    table: The numbers of a study.
    column: The name of a column.
    name: The name of the number.
    values: The number by row.

  Returns:
    An SVG element; "" if fewer than two rows have a score.
  """
  cells = {row: table.cells[row, column] for row in values}
  ours = {
    row: cell.difference or 0.0
    for row, cell in cells.items()
    if cell.mean is not None
    and (cell.difference is not None or row == table.baseline)
  }
  if len(ours) < 2:
    return markupsafe.Markup()
  theirs = {
    row: cell.published_difference or 0.0
    for row, cell in cells.items()
    if cell.published is not None
    and (cell.published_difference is not None or row == table.baseline)
  }
  figure, axes = _axes(column, name, "difference")
  if max(values.values()) > _WIDEST_LINEAR * min(values.values()) > 0:
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(values.values()), minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(_tick)
  axes.axhline(0, color=_SOFT, linewidth=0.8)
  for row, difference in ours.items():
    _error_bar(axes, values[row], difference, cells[row].deviation, _OURS)
  for place, differences in ((_OURS, ours), (_PUBLISHED, theirs)):
    if len(differences) > 1:
      x, y = [values[row] for row in differences], list(differences.values())
      axes.plot(x, y, **_line(place))
      axes.plot(x, y, **_dots(place))
  return _svg(figure, column)


@_style()
def over_columns(
  table: Table, name: str, values: Mapping[str, float]
) -> markupsafe.Markup:
  """Draws the scores of each row over the number in which columns differ.

  A line is the mean over seeds, with the range that they span.

  Args:
    table: The numbers of a study.
    name: The text that the names of the columns have in common.
    values: The number by column.

  Returns:
    An SVG element; "" if no row has two columns with scores.
  """
  figure, axes = _axes(name, "number in the column", "score")
  drawn = False
  for place, row in enumerate(table.rows):
    cells = {
      number: cell.values
      for column, number in values.items()
      if (cell := table.cells[row, column]).values
    }
    if len(cells) < 2:
      continue
    drawn = True
    x = list(cells)
    seeds = [list(of_seeds.values()) for of_seeds in cells.values()]
    axes.fill_between(
      x,
      [min(of_seeds) for of_seeds in seeds],
      [max(of_seeds) for of_seeds in seeds],
      facecolor=_SERIES[place % NUM_COLOURS],
      alpha=0.16,
      linewidth=0,
    )
    y = [float(np.mean(of_seeds)) for of_seeds in seeds]
    axes.plot(x, y, **_line(place))
    axes.plot(x, y, **_dots(place))
  return _svg(figure, name) if drawn else markupsafe.Markup()


@_style()
def against_published(table: Table, column: str) -> markupsafe.Markup:
  """Draws our score of each row over the published one.

  The lines cross at the baseline: a row to the upper right or the lower left of
  it differs from it in the published direction.

  Args:
    table: The numbers of a study.
    column: The name of a column.

  Returns:
    An SVG element; "" if fewer than two rows have both scores.
  """
  both = {
    row: cell
    for row, cell in table.of_column(column).items()
    if cell.mean is not None and cell.published is not None
  }
  if len(both) < 2:
    return markupsafe.Markup()
  figure, axes = _axes(column, "published", "ours")
  if table.baseline in both:
    base = both[table.baseline]
    axes.axvline(base.published, color=_SOFT, linewidth=0.8)
    axes.axhline(base.mean, color=_SOFT, linewidth=0.8)
  for row, cell in both.items():
    place = table.rows.index(row)
    _error_bar(axes, cell.published, cell.mean, cell.deviation, place)
    (dot,) = axes.plot([cell.published], [cell.mean], **_dots(place))
    dot.set_gid(f"row:{row}")
  labels = {f"row:{row}": table.labels[row] for row in both}
  return _svg(figure, column, labels)


@_style()
def over_costs(
  table: Table, column: str, name: str, costs: Mapping[str, float]
) -> markupsafe.Markup:
  """Draws the score of each row over what it costs.

  Args:
    table: The numbers of a study.
    column: The name of a column.
    name: The name of the cost, as "FLOPs of pre-training".
    costs: The cost by row, above 0.

  Returns:
    An SVG element; "" if fewer than two rows have a score.
  """
  cells = {row: table.cells[row, column] for row in costs}
  scored = {row: cell for row, cell in cells.items() if cell.mean is not None}
  if len(scored) < 2:
    return markupsafe.Markup()
  figure, axes = _axes(column, name, "score")
  axes.set_xscale("log")
  axes.set_xticks([min(costs.values()), max(costs.values())], minor=False)
  axes.set_xticks([], minor=True)
  axes.xaxis.set_major_formatter(_tick)
  labels = {}
  for row, cell in scored.items():
    place = table.rows.index(row)
    _error_bar(axes, costs[row], cell.mean, cell.deviation, place)
    (dot,) = axes.plot([costs[row]], [cell.mean], **_dots(place))
    dot.set_gid(f"row:{row}")
    labels[f"row:{row}"] = (
      f"{table.labels[row]}: {number(cell.mean, cell.decimals)}"
    )
  return _svg(figure, column, labels)


@_style()
def learning_curves(
  title: str,
  axis: str,
  curves: Mapping[int, tuple[np.ndarray, np.ndarray]],
  marked: Mapping[int, Sequence[tuple[float, float]]] | None = None,
) -> markupsafe.Markup:
  """Draws the mean over seeds of each row and the range that they span.

  Args:
    title: The title of the chart.
    axis: The label of the horizontal axis.
    curves: The horizontal values [points] and the values of the seeds [seeds,
      points], by the position of a row in the study. A row with a single point
      is a dot.
    marked: The points that get a dot, by the position of a row in the study.

  Returns:
    An SVG element.
  """
  figure, axes = _axes(title, axis)
  for place, (x, values) in curves.items():
    if len(values) > 1 and len(x) > 1:
      axes.fill_between(
        x,
        values.min(0),
        values.max(0),
        facecolor=_SERIES[place % NUM_COLOURS],
        alpha=0.16,
        linewidth=0,
      )
    style = _line(place) if len(x) > 1 else _dots(place)
    axes.plot(x, values.mean(0), **style)
    for point in (marked or {}).get(place, ()):
      axes.plot(*point, **_dots(place))
  return _svg(figure, title)


@_style()
def ladder(found: Ladder) -> markupsafe.Markup:
  """Draws Kendall's tau with its interval over training FLOPs.

  Args:
    found: A study on several suites.

  Returns:
    An SVG element.
  """
  figure, axes = _axes(found.study, "training FLOPs", "Kendall’s tau")
  axes.set_xscale("log")
  flops = [rung.flops for rung in found.rungs]
  axes.set_xticks(flops, minor=False)
  axes.set_xticks([], minor=True)
  axes.set_xlim(flops[0] / 1.5, flops[-1] * 1.5)
  axes.set_ylim(-1, 1)
  axes.xaxis.set_major_formatter(_tick)
  axes.axhline(0, color=_SOFT, linewidth=0.8)
  axes.plot(flops, [rung.tau.tau for rung in found.rungs], **_line(_OURS))
  labels = {}
  for place, rung in enumerate(found.rungs):
    tau = rung.tau
    if tau.low is not None:
      ends = [tau.low, tau.high]
      axes.plot([rung.flops] * 2, ends, color=_SERIES[_OURS])
    (dot,) = axes.plot([rung.flops], [tau.tau], **_dots(_OURS))
    dot.set_gid(f"rung:{place}")
    labels[f"rung:{place}"] = f"{rung.suite}: {signed(tau.tau)}"
  return _svg(figure, found.study, labels)


def alone(chart: markupsafe.Markup) -> str:
  """Returns a chart as an SVG file of its own, in the colours of print."""
  colours = {
    **{f"--series-{place}": c for place, c in enumerate(_PRINTED_SERIES)},
    **_PRINTED,
  }
  rules = "; ".join(f"{name}: {value}" for name, value in colours.items())
  style = f"<style>svg {{ {rules}; font-family: sans-serif }}</style>"
  head, end, rest = str(chart).partition(">")
  head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
  background = '<rect width="100%" height="100%" fill="#ffffff"/>'
  return f"{head}{end}{style}{background}{rest}\n"


def sensitivities(table: Table) -> dict[str, dict[str, float]]:
  """Finds rows whose labels differ in a number alone.

  Args:
    table: The numbers of a study.

  Returns:
    By the text that labels have in common, `{row: number}` in rising order, of
    three rows or more.
  """
  return _differing(table.labels)


def numbered_columns(table: Table) -> dict[str, dict[str, float]]:
  """Finds columns whose names differ in a number alone, as `pairs_4`.

  Args:
    table: The numbers of a study.

  Returns:
    By the text that names have in common, `{column: number}` in rising order,
    of three columns or more.
  """
  return _differing({column: column for column in table.columns})


def _differing(labels: Mapping[str, str]) -> dict[str, dict[str, float]]:
  """Finds labels that differ in a number alone, three or more."""
  found = {}
  for row, label in labels.items():
    match = _NUMBER.fullmatch(label)
    if match:
      before, base, power, divisor, after = match.groups()
      base, power = (
        (text or "1").replace("\u2212", "-") for text in (base, power)
      )
      try:
        value = float(base.replace(",", "")) ** float(power)
        value /= float(divisor or 1)
      except ArithmeticError:  # "24/0": layers, and no fraction.
        continue
      name = " ".join(filter(None, (before.strip(" =,_"), after.strip())))
      found.setdefault(name or "value", {})[row] = value
  return {
    name: dict(sorted(values.items(), key=lambda item: item[1]))
    for name, values in found.items()
    if len(set(values.values())) >= _FEWEST_VALUES
  }


def _axes(title: str, x_label: str = "", y_label: str = ""):
  from matplotlib.figure import Figure

  figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72))
  axes = figure.add_subplot()
  axes.set(title=title, xlabel=x_label, ylabel=y_label)
  axes.locator_params(nbins=5)
  for one in (axes.xaxis, axes.yaxis):
    one.set_major_formatter(_tick)
  if not x_label:
    axes.set_xticks([])
    axes.spines.bottom.set_visible(False)
  return figure, axes


def _tick(value: float, _: int) -> str:
  if abs(value) >= 1e4:
    return compact(value).replace("-", "−")
  return f"{value:.6g}".replace("-", "−")


def _line(place: int) -> dict[str, object]:
  dashes = DASHES[place // NUM_COLOURS % len(DASHES)]
  return {
    "color": _SERIES[place % NUM_COLOURS],
    "linestyle": (0, dashes) if dashes else "-",
  }


def _dots(place: int) -> dict[str, object]:
  """Dots; hollow ones of a row whose lines are dashed."""
  colour = _SERIES[place % NUM_COLOURS]
  hollow = place // NUM_COLOURS % len(DASHES) > 0
  return {
    "linestyle": "none",
    "marker": "o",
    "markersize": 2 * _DOT,
    "markeredgecolor": colour,
    "markeredgewidth": 1 if hollow else 0,
    "markerfacecolor": _PAPER if hollow else colour,
    "alpha": 1 if hollow else 0.75,
  }


def _error_bar(axes, x, y, deviation, place) -> None:
  if deviation:
    colour = _SERIES[place % NUM_COLOURS]
    axes.plot([x, x], [y - deviation, y + deviation], color=colour)


def _svg(
  figure, title: str, labels: Mapping[str, str] | None = None
) -> markupsafe.Markup:
  """Returns a figure as an element for a page.

  Args:
    figure: The figure.
    title: The accessible name of the element.
    labels: The text shown over an artist, by the group id of the artist.
  """
  (axes,) = figure.axes
  for artist in axes.get_children():
    artist.set_clip_on(False)
  figure.patch.set_visible(False)
  axes.patch.set_visible(False)
  # A layout by the measured sizes of texts would take twice the time.
  longest = max(len(_tick(value, 0)) for value in axes.get_yticks())
  left = 6 + _LETTER * longest + (14 if axes.get_ylabel() else 0)
  bottom = 32 if axes.get_xlabel() else 8
  figure.subplots_adjust(
    left=left / _WIDTH,
    right=1 - _RIGHT / _WIDTH,
    bottom=bottom / _HEIGHT,
    top=1 - _TOP / _HEIGHT,
  )
  text = io.StringIO()
  nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
  figure.savefig(text, format="svg", metadata=nothing)
  root = ElementTree.fromstring(text.getvalue())
  plain = ElementTree.Element(
    "svg",
    {"class": "chart", "viewBox": root.get("viewBox"), "role": "img"}
    | {"aria-label": title},
  )
  for child in root:
    _copy(child, plain, labels or {})
  return markupsafe.Markup(ElementTree.tostring(plain, encoding="unicode"))


def _copy(element, parent, labels: Mapping[str, str]) -> None:
  """Copies an element without ids, which several charts would share.

  Dots, which matplotlib draws as references to a path, become circles.
  """
  tag, group = element.tag.partition("}")[2], element.get("id")
  if tag == "defs":
    return
  if tag == "g":
    if group in labels:
      parent = ElementTree.SubElement(parent, "g")
      ElementTree.SubElement(parent, "title").text = labels[group]
    for child in element:
      _copy(child, parent, labels)
    return
  style = re.sub("font-family: [^;]*; ", "", element.get("style"))
  style = re.sub("#[0-9a-f]{6}", lambda c: f"var({_VARIABLES[c[0]]})", style)
  attributes = {}
  if tag == "path":
    attributes["d"] = _rounded(element.get("d"))
  elif tag == "use":
    tag, attributes["r"] = "circle", str(_DOT)
    for name in ("x", "y"):
      attributes[f"c{name}"] = _rounded(element.get(name))
  else:
    for name in ("x", "y", "transform"):
      attributes[name] = _rounded(element.get(name))
    if attributes["transform"].startswith("rotate(-0 "):
      del attributes["transform"]
  copied = ElementTree.SubElement(parent, tag, attributes | {"style": style})
  copied.text = (element.text or "").strip()


def _rounded(numbers: str) -> str:
  """Returns SVG numbers in tenths of a pixel."""
  text = " ".join(numbers.split())
  return re.sub(r"\d+\.\d\d+", lambda match: f"{float(match[0]):.1f}", text)
