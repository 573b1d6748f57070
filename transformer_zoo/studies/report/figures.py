"""Figures of published tables: scores of rows, losses, and differences."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import hashlib
import json
import pathlib
import re
from typing import TYPE_CHECKING

from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import tables

if TYPE_CHECKING:
  from matplotlib.figure import Figure

_INK, _SOFT, _DOT = "#1c2127", "#9aa4ae", "#0072b2"
# Told apart by the colour-blind (Okabe and Ito 2008).
_LINES = (_DOT, "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("-", "--", ":", "-.")


def draw(path: pathlib.Path, table: tables.Table) -> None:
  """Draws a table as SVG, unless the file was drawn from an equal table.

  A dot is the mean of a row, its bar the standard deviation over seeds, and a
  line goes through the baseline.
  """
  if path.exists() and drawn_from(path) == digest(table):
    return
  with _figure(path, table, 0.7 + 0.24 * len(table.lines)) as figure:
    columns = [title.partition("\u00a0")[0] for title in table.head[1:]]
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)
    labels = [label for label, *_ in table.lines]
    for place, (name, axes) in enumerate(zip(columns, panels[0], strict=True)):
      for row, (label, *line) in enumerate(table.lines):
        if re.match(r"[−\d]", line[place].text):
          mean = float(line[place].text.replace("−", "-"))
          deviation = float(line[place].deviation or 0)
          axes.errorbar(mean, row, xerr=deviation, fmt="o", c=_DOT)
          if label.startswith(cells.STAR):
            axes.axvline(mean, color=_SOFT, linewidth=0.8, zorder=0)
      axes.set_title(name, fontsize=9, color=_INK)
      axes.set_yticks(range(len(labels)), labels)
      axes.spines[["top", "right", "left"]].set_visible(False)
      axes.tick_params(axis="y", length=0)
      axes.margins(0.15, 0)
    panels[0][0].set_ylim(len(labels) - 0.5, -0.5)


def draw_budgets(path: pathlib.Path, table: tables.Table) -> None:
  """Draws differences over budgets as SVG, unless they were drawn already.

  A dot is a difference in the published direction, its bar the 95 % interval: a
  conclusion holds where the bar is above 0, and is reversed where below.

  Args:
    path: The path of the figure.
    table: A line for each conclusion and budget: the study, the conclusion,
      the suite, the FLOPs of a row, the seeds, the verdict, and the difference
      with its interval, if it has one.
  """
  if path.exists() and drawn_from(path) == digest(table):
    return
  panels = {}
  for study, claim, _, flops, _, _, measured in table.lines:
    numbers = re.findall(r"[+−][\d.]+", measured)
    found = [float(number.replace("−", "-")) for number in numbers]
    panels.setdefault(f"{study}\n{claim}", []).append((flops.order, *found))
  with _figure(path, table, 2.4) as figure:
    drawn = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for (title, points), axes in zip(panels.items(), drawn, strict=True):
      for flops, mean, *ends in points:
        bar = [[mean - ends[0]], [ends[1] - mean]] if ends else None
        axes.errorbar(flops, mean, yerr=bar, fmt="o", c=_DOT)
      budgets, means = zip(*(point[:2] for point in points), strict=True)
      axes.plot(budgets, means, c=_DOT, linewidth=0.8)
      axes.axhline(0, color=_SOFT, linewidth=0.8, zorder=0)
      axes.set_xscale("log")
      axes.set_title(title, fontsize=9, color=_INK)
      axes.set_xlabel("FLOPs of a row")
      axes.spines[["top", "right"]].set_visible(False)
      axes.margins(0.2, 0.1)
    drawn[0].set_ylabel("points")


def draw_curves(
  path: pathlib.Path, curves: Mapping[str, Sequence[Sequence[float]]]
) -> None:
  """Draws losses over FLOPs as SVG, unless they were drawn already.

  Args:
    path: The path of the figure.
    curves: FLOPs [points] and losses [points] by the label of a row.
  """
  if path.exists() and drawn_from(path) == digest(curves):
    return
  with _figure(path, curves, 3) as figure:
    axes = figure.subplots()
    for place, (label, (flops, losses)) in enumerate(curves.items()):
      dashes, colour = divmod(place, len(_LINES))
      style = {"c": _LINES[colour], "ls": _DASHES[dashes % len(_DASHES)]}
      axes.plot(flops, losses, label=label, linewidth=1, **style)
    axes.set_xscale("log")
    axes.set_xlabel("FLOPs")
    axes.set_ylabel("loss")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False)


@contextlib.contextmanager
def _figure(
  path: pathlib.Path, drawn: object, height: float
) -> Iterator["Figure"]:
  """Yields an empty figure, which is saved at the end: equal tables, bytes."""
  import matplotlib
  from matplotlib.figure import Figure

  settings = {"svg.fonttype": "none", "svg.hashsalt": path.stem}
  with matplotlib.rc_context({**settings, "font.size": 9}):
    figure = Figure(figsize=(9, height), layout="constrained")
    yield figure
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None, "Description": digest(drawn)}
    figure.savefig(path, metadata=metadata)


def digest(drawn: object) -> str:
  """Returns a hash of the text of a table, or of other numbers."""
  is_table = isinstance(drawn, tables.Table)
  text = tables.to_markdown(drawn) if is_table else json.dumps(drawn)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def drawn_from(path: pathlib.Path) -> str:
  """Returns the digest of the table that a figure was drawn from."""
  text = path.read_text(encoding="utf-8")
  found = re.search(r"<dc:description>(\w+)</dc:description>", text)
  return found[1] if found else ""
