"""The screen of `zoo watch`: a line for each run, a panel for each metric."""

from collections.abc import Sequence
import dataclasses
import os
import pathlib
import time

import numpy as np
import plotext
import rich.console
import rich.live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from transformer_zoo.curves import runs as runs_lib
from transformer_zoo.curves.runs import Run

DEFAULT_METRICS = ("train/loss", "validation/*/loss", "validation/average")
# Codes of the terminal: cyan, yellow, magenta, green, red, blue.
_COLOURS = (6, 3, 5, 2, 1, 4)
# The width in characters from which two panels stand side by side.
_WIDE = 150
_SMALLEST_PANEL = 9
# The difference of larger values may be infinite.
_LARGEST = 1e300


@dataclasses.dataclass(frozen=True)
class Curve:
  """One line of a panel.

  Attributes:
    steps: The steps, ascending, float64 [n].
    values: The values, float64 [n]. Those that are not finite are left out.
    colour: The colour code of the terminal.
  """

  steps: np.ndarray
  values: np.ndarray
  colour: int


def draw(
  curves: Sequence[Curve], *, width: int, height: int, log: bool = False
) -> Text:
  """Draws curves with their axes, eight dots in every character.

  Args:
    curves: The curves; later ones lie above earlier ones.
    width: The width in characters.
    height: The height in lines.
    log: Whether the axis of values is logarithmic. Values that are not positive
      are then left out.
  """
  curves = [_drawable(curve, log) for curve in curves]
  curves = [curve for curve in curves if len(curve.values)]
  if not curves:
    return Text("no values yet".center(width))
  steps = np.concatenate([curve.steps for curve in curves])
  values = np.concatenate([curve.values for curve in curves])
  ends = float(steps.min()), float(steps.max())
  low, high = float(values.min()), float(values.max())
  plotext.clear_figure()
  plotext.theme("clear")
  plotext.limit_size(False, False)
  plotext.plot_size(width, height)
  plotext.xaxes(True, False)
  plotext.yaxes(True, False)
  for curve in curves:
    x, y = _thinned(curve, ends, 2 * width)
    plotext.plot(x, y, marker="braille", color=curve.colour)
  ticks = [low, (low + high) / 2, high] if low < high else [low]
  labels = [_number(10**tick if log else tick) for tick in ticks]
  plotext.yticks(ticks, labels)
  places, labels = [ends[1]], [f"step {ends[1]:,.0f}"]
  if ends[0] < ends[1]:
    # A label is centred at its tick, and the last one has to fit in.
    half = len(labels[0]) / (2 * width)
    places = [ends[0], ends[1] - half * (ends[1] - ends[0])]
    labels.insert(0, f"{ends[0]:,.0f}")
  plotext.xticks(places, labels)
  return Text.from_ansi(plotext.build().rstrip("\n"))


def _drawable(curve: Curve, log: bool) -> Curve:
  kept = np.abs(curve.values) < _LARGEST
  if log:
    kept &= curve.values > 0
  values = curve.values[kept]
  return Curve(
    curve.steps[kept], np.log10(values) if log else values, curve.colour
  )


def _thinned(
  curve: Curve, ends: tuple[float, float], columns: int
) -> tuple[list[float], list[float]]:
  """At most four points of each column: first, lowest, highest, last.

  plotext draws every point in Python; no spike is lost by this.
  """
  first, last = ends
  share = (curve.steps - first) / max(last - first, 1.0)
  place = np.rint(share * (columns - 1))
  starts = np.flatnonzero(np.diff(place, prepend=-1))
  y = curve.values
  kept = [
    y[starts],
    np.minimum.reduceat(y, starts),
    np.maximum.reduceat(y, starts),
    y[np.append(starts[1:], len(y)) - 1],
  ]
  steps = np.repeat(curve.steps[starts], len(kept))
  return steps.tolist(), np.stack(kept, axis=1).ravel().tolist()


def _number(value: float) -> str:
  return f"{value:.3g}"


@dataclasses.dataclass(frozen=True)
class View:
  """The choice of what is shown.

  Attributes:
    patterns: The names of metrics, or patterns of names.
    smoothing: The weight of `runs.smooth`.
    log: Whether the axes of values are logarithmic.
  """

  patterns: Sequence[str] = DEFAULT_METRICS
  smoothing: float = 0.0
  log: bool = False


class Screen:
  """Runs, whose folders are searched again at each update."""

  def __init__(self, folders: Sequence[str | os.PathLike[str]], view: View):
    """Creates the screen; nothing is read before the first `update`.

    Args:
      folders: The folders of runs or studies.
      view: The choice of what is shown.
    """
    self._folders = folders
    self._view = view
    self._runs: dict[pathlib.Path, Run] = {}

  @property
  def runs(self) -> list[Run]:
    """The runs that were found at the last update."""
    return list(self._runs.values())

  def update(self) -> None:
    """Finds the runs and reads what they have recorded."""
    found = runs_lib.find(self._folders)
    names = runs_lib.names(found)
    self._runs = {
      folder: self._runs.get(folder) or Run(folder, name)
      for folder, name in zip(found, names, strict=True)
    }
    for run, name in zip(self.runs, names, strict=True):
      run.name = name
      run.update()

  def metrics(self) -> list[str]:
    """The names of all recorded metrics."""
    return sorted(set().union(*(run.metrics for run in self.runs)))

  def draw(self, width: int, height: int) -> rich.console.Group:
    """Lays everything out.

    Args:
      width: The width of the terminal in characters.
      height: Its height in lines; fewer are used if they suffice.
    """
    table = self._table()
    chosen, missing = runs_lib.choose(self._view.patterns, self.metrics())
    if self._view.patterns is DEFAULT_METRICS and chosen:
      missing = []  # A run need not have all of them.
    columns = 2 if width >= _WIDE and len(chosen) > 1 else 1
    rows = -(-len(chosen) // columns)
    free = height - len(self.runs) - len(missing) - 2
    lines = max(free // max(rows, 1), _SMALLEST_PANEL)
    panels = [
      self._panel(metric, width // columns, min(lines, 24)) for metric in chosen
    ]
    grid = Table.grid()
    for first in range(0, len(panels), columns):
      grid.add_row(*panels[first : first + columns])
    return rich.console.Group(table, *map(Text, missing), grid)

  def _table(self) -> Table:
    table = Table.grid(padding=(0, 2))
    for run, colour in zip(self.runs, _colours(self.runs), strict=True):
      steps = f"step {run.step:,}"
      if run.train_steps:
        steps += f" of {run.train_steps:,}"
      shown = [Text(f"━ {run.name}", f"color({colour})"), steps, run.state()]
      for metric, form in (
        ("train/loss", "loss {:.4g}"),
        ("timing/tokens_per_second", "{:,.0f} tokens/s"),
        ("timing/utilization", "{:.1%} of peak"),
      ):
        value = run.last(metric)
        shown.append("" if value is None else form.format(value))
      if skipped := run.last("train/skipped_steps"):
        shown.append(f"{skipped:.0f} steps skipped")
      if run.damaged:
        shown.append(f"{run.damaged} damaged lines passed over")
      table.add_row(*shown)
    return table

  def _panel(self, metric: str, width: int, height: int) -> Panel:
    curves = []
    for run, colour in zip(self.runs, _colours(self.runs), strict=True):
      steps, values = run.series(metric)
      values = runs_lib.smooth(values, self._view.smoothing)
      curves.append(Curve(steps, values, colour))
    drawn = draw(curves, width=width - 4, height=height - 2, log=self._view.log)
    return Panel(drawn, title=metric, title_align="left", width=width)


def _colours(runs: Sequence[Run]) -> list[int]:
  return [_COLOURS[index % len(_COLOURS)] for index in range(len(runs))]


def show_live(
  screen: Screen, console: rich.console.Console, every_seconds: float
) -> None:
  """Draws again and again until Ctrl-C, or until all runs have finished."""
  with rich.live.Live(
    console=console, auto_refresh=False, screen=False
  ) as live:
    while True:
      screen.update()
      live.update(screen.draw(console.width, console.height - 1), refresh=True)
      if all(run.state() == "finished" for run in screen.runs):
        return
      time.sleep(every_seconds)
