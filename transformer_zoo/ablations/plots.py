"""Plots of a study as SVG text that takes its colours from the page.

The colours in the text are CSS variables (`--series-0` ..., `--grid`) and
`currentColor`, so that one plot fits a light and a dark page.
"""

from collections.abc import Mapping, Sequence
import io
import math
import re
import statistics

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.ablations.scores import Table
from transformer_zoo.training import recorder

NUM_COLOURS = 8
# Stand-ins that matplotlib accepts as colours, replaced in the SVG text.
_INK, _GRID = "#0a0b01", "#0a0b02"
_SERIES = [f"#0a0c{index:02x}" for index in range(NUM_COLOURS)]
_MOST_POINTS = 400
_LEFT_OUT = re.compile(
  r"(^|/)(learning_rate|grad_norm|.*weights?|num_.*|.*tokens)$"
)

Curve = dict[int, float]  # Value by step.


def curves(
  study: StudyResults, phase: str
) -> dict[str, dict[str, dict[int, Curve]]]:
  """Reads the learning curves of one phase.

  Args:
    study: the study.
    phase: the name of the phase.

  Returns:
    `{metric: {row: {seed: {step: value}}}}`; losses and averages come first.
    A shared run appears under the first row that has it.
  """
  found = {}
  for run in study.runs:
    if run.phase != phase or run.shared:
      continue
    for line in recorder.read_lines(run.folder / recorder.METRICS_FILE):
      for name, value in line.items():
        if name == "step" or _LEFT_OUT.search(name):
          continue
        by_seed = found.setdefault(name, {}).setdefault(run.row, {})
        by_seed.setdefault(run.seed, {})[line["step"]] = value
  return {name: found[name] for name in sorted(found, key=_importance)}


def learning_curves(study: StudyResults, phase: str) -> str | None:
  """Draws every curve of a phase: seeds thin, their mean bold.

  Returns:
    SVG text, or None where nothing was recorded.
  """
  panels = curves(study, phase)
  if not panels:
    return None
  columns = min(3, len(panels))
  lines = math.ceil(len(panels) / columns)
  figure = Figure(figsize=(3.3 * columns, 2.3 * lines), layout="constrained")
  axes = figure.subplots(lines, columns, squeeze=False).flat
  for (name, by_row), ax in zip(panels.items(), axes, strict=False):
    for row, by_seed in by_row.items():
      colour = colour_of(study.rows, row)
      for curve in by_seed.values():
        _line(ax, curve, colour, linewidth=0.7, alpha=0.4)
      _line(ax, _mean(by_seed.values()), colour, linewidth=2.0)
    ax.set_title(name.replace("/", " / "), fontsize=9)
    _dress(ax)
    ax.set_xlabel("step", fontsize=8)
  for ax in list(axes):  # What is left of the last line of panels.
    ax.set_axis_off()
  return _svg(figure)


def scores(table: Table) -> str | None:
  """Draws each column's scores: a dot per seed, a bar at the mean.

  Returns:
    SVG text, or None where no run is finished.
  """
  if not table.columns:
    return None
  height = 0.28 * len(table.columns) * max(2, len(table.rows)) / 2 + 0.7
  figure = Figure(figsize=(8.0, height), layout="constrained")
  ax = figure.subplots()
  spread = 0.6 / max(1, len(table.rows) - 1)
  for place, column in enumerate(table.columns):
    for index, row in enumerate(table.rows):
      cell = table.cells[row, column]
      colour = _SERIES[index % NUM_COLOURS]
      y = place + (index * spread - 0.3 if len(table.rows) > 1 else 0.0)
      values = list(cell.values.values())
      ax.scatter(values, [y] * len(values), s=14, color=colour, alpha=0.55)
      if cell.mean is not None:
        ax.scatter(
          [cell.mean], [y], s=110, marker="|", color=colour, linewidth=2.5
        )
    if place % 2:
      ax.axhspan(place - 0.5, place + 0.5, color=_GRID, alpha=0.35, zorder=0)
  ax.set_yticks(range(len(table.columns)), table.columns)
  ax.set_ylim(len(table.columns) - 0.5, -0.5)
  _dress(ax)
  ax.set_xlabel("score", fontsize=8)
  return _svg(figure)


def colour_of(rows: Sequence[str], row: str) -> str:
  """Returns the stand-in colour of a row."""
  return _SERIES[rows.index(row) % NUM_COLOURS]


def _importance(name: str) -> tuple[int, str]:
  last = name.rpartition("/")[2]
  depth = name.count("/")
  if last == "loss" and depth <= 1:
    return (0, name)
  return (1, name) if "average" in name else (2, name)


def _mean(by_seed) -> Curve:
  """The mean at the steps that all seeds have reached."""
  common = set.intersection(*(set(curve) for curve in by_seed))
  return {
    step: statistics.fmean(curve[step] for curve in by_seed)
    for step in sorted(common)
  }


def _line(ax, curve: Mapping[int, float], colour: str, **style) -> None:
  steps = sorted(curve)
  # A page has few pixels; every curve keeps its last point.
  stride = -(-len(steps) // _MOST_POINTS) or 1
  steps = sorted({*steps[::stride], *steps[-1:]})
  marker = "o" if len(steps) == 1 else None
  values = [curve[step] for step in steps]
  ax.plot(steps, values, color=colour, marker=marker, **style)


def _dress(ax) -> None:
  for side in ("top", "right"):
    ax.spines[side].set_visible(False)
  for side in ("left", "bottom"):
    ax.spines[side].set_color(_GRID)
  ax.tick_params(colors=_INK, labelsize=8, length=0)
  ax.grid(color=_GRID, linewidth=0.6)
  ax.set_axisbelow(True)
  for label in (ax.title, ax.xaxis.label, ax.yaxis.label):
    label.set_color(_INK)


def _svg(figure: Figure) -> str:
  figure.patch.set_alpha(0.0)
  for ax in figure.axes:
    ax.patch.set_alpha(0.0)
  file = io.BytesIO()
  # The salt makes equal results give equal bytes.
  options = {"svg.fonttype": "none", "svg.hashsalt": "transformer_zoo"}
  with matplotlib.rc_context(options):
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
  text = file.getvalue().decode("utf-8")
  text = text[text.index("<svg") :]
  text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
  text = text.replace(_INK, "currentColor").replace(_GRID, "var(--grid)")
  for index, colour in enumerate(_SERIES):
    text = text.replace(colour, f"var(--series-{index})")
  opening, rest = text.split(">", 1)
  # The page decides the width; the view box keeps the proportions.
  opening = re.sub(r' (width|height)="[^"]*"', "", opening)
  width = round(figure.get_figwidth() * 96)
  # Letters stay legible on a phone, where the plot scrolls instead.
  style = f"width:100%;max-width:{width}px;min-width:{width * 2 // 3}px"
  return f'{opening} style="{style}">{rest}'
