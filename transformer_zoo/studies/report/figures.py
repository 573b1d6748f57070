"""Figures of published tables: the scores of all rows, a panel a column."""

import hashlib
import pathlib
import re

from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import tables

_INK, _SOFT, _DOT = "#1c2127", "#9aa4ae", "#0072b2"


def draw(path: pathlib.Path, table: tables.Table) -> None:
  """Draws a table as SVG, unless the file was drawn from an equal table.

  A dot is the mean of a row, its bar the standard deviation over seeds, and a
  line goes through the baseline.
  """
  if path.exists() and drawn_from(path) == digest(table):
    return
  import matplotlib
  from matplotlib.figure import Figure

  settings = {"svg.fonttype": "none", "svg.hashsalt": path.stem}
  with matplotlib.rc_context({**settings, "font.size": 9}):
    height = 0.7 + 0.24 * len(table.lines)
    figure = Figure(figsize=(9, height), layout="constrained")
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
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None, "Description": digest(table)}
    figure.savefig(path, metadata=metadata)


def digest(table: tables.Table) -> str:
  """Returns a hash of the text of a table."""
  text = tables.to_markdown(table)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def drawn_from(path: pathlib.Path) -> str:
  """Returns the digest of the table that a figure was drawn from."""
  text = path.read_text(encoding="utf-8")
  found = re.search(r"<dc:description>(\w+)</dc:description>", text)
  return found[1] if found else ""
