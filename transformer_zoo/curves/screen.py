"""Runs on the terminal: a line for each, and a panel for each metric."""

from collections.abc import Sequence
import dataclasses
import os
import pathlib
import time

import rich.console
import rich.live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from transformer_zoo.curves import canvas
from transformer_zoo.curves import runs as runs_lib
from transformer_zoo.curves.runs import Run

DEFAULT_METRICS = ("train/loss", "validation/*/loss", "validation/average")
# Two panels side by side need so many characters.
_WIDE = 150
_SMALLEST_PANEL = 9


@dataclasses.dataclass(frozen=True)
class View:
  """What is shown.

  Attributes:
    patterns: of metrics.
    smoothing: as `runs.smooth`.
    log: logarithmic axes of values.
  """

  patterns: Sequence[str] = DEFAULT_METRICS
  smoothing: float = 0.0
  log: bool = False


class Screen:
  """Some runs, whose folders are looked through again at each update."""

  def __init__(self, folders: Sequence[str | os.PathLike[str]], view: View):
    """Reads nothing yet.

    Args:
      folders: of runs or studies.
      view: what is shown.
    """
    self._folders = folders
    self._view = view
    self._runs: dict[pathlib.Path, Run] = {}

  @property
  def runs(self) -> list[Run]:
    """The runs that were found at the last update."""
    return list(self._runs.values())

  def update(self) -> None:
    """Finds the runs there are, and reads what they have recorded."""
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
    """The names of all that is recorded."""
    return sorted(set().union(*(run.metrics for run in self.runs)))

  def draw(self, width: int, height: int) -> rich.console.Group:
    """Lays everything out.

    Args:
      width: of the terminal, in characters.
      height: in lines, of which no more than needed are used.
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
      shown = [Text(f"━ {run.name}", colour), steps, run.state()]
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
      curves.append(canvas.Curve(steps, values, colour))
    drawn = canvas.draw(
      curves, width=width - 4, height=height - 2, log=self._view.log
    )
    return Panel(drawn, title=metric, title_align="left", width=width)


def _colours(runs: Sequence[Run]) -> list[str]:
  return [
    canvas.COLOURS[index % len(canvas.COLOURS)] for index in range(len(runs))
  ]


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
