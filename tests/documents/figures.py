"""Draws the figures of docs/log/results.md from the tables beside them.

  .venv/bin/python -m tests.documents.figures

A section of the page with a line `![...](../images/results/NAME.svg)` has such
a figure: for each column of its table the scores of the rows, with deviations
over seeds where the table has them. tests/documents/figures_test.py compares
the table that a figure was drawn from.
"""

from collections.abc import Iterator
import hashlib
import pathlib
import re
from typing import NamedTuple

DOCS = pathlib.Path(__file__).parents[2] / "docs"
_SCORE = re.compile(r"([−-]?[\d.]+)(?: ± ([\d.]+))?")
_INK, _SOFT, _DOT = "#1c2127", "#9aa4ae", "#0072b2"


class Table(NamedTuple):
  """A table of results.

  Attributes:
    columns: The names of its columns.
    rows: The label and the cells of each row: "", "57.17", "79.07 ± 2.19".
  """

  columns: list[str]
  rows: list[tuple[str, list[str]]]

  @property
  def digest(self) -> str:
    """A hash of all that a figure shows of the table."""
    return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def found() -> Iterator[tuple[pathlib.Path, Table]]:
  """Returns the path of each figure and the table of its section."""
  text = (DOCS / "log/results.md").read_text("utf-8").replace("\xa0", " ")
  for section in re.split(r"^## ", text, flags=re.M)[1:]:
    if image := re.search(r"\]\(\.\./(images/results/.+\.svg)\)", section):
      lines = re.search(r"(?:^\|.*\n)+", section, re.M)[0].splitlines()
      head, _, *rows = map(_cells, lines)
      table = Table(head[1:], [(label, cells) for label, *cells in rows])
      yield DOCS / image[1], table


def _cells(line: str) -> list[str]:
  """The cells of a line without marks, bold type and what brackets add."""
  cells = re.sub(r"\*\*| †| \(.*?\)(?= *\|)| \[.*?\]", "", line)
  return [cell.strip() for cell in cells.strip("|").split("|")]


def draw(path: pathlib.Path, table: Table) -> None:
  """Draws a table: a panel for each column, a dot for each row."""
  import matplotlib
  from matplotlib import figure as figures

  settings = {"svg.fonttype": "none", "svg.hashsalt": path.stem}
  with matplotlib.rc_context({**settings, "font.size": 9}):
    height = 0.7 + 0.24 * len(table.rows)
    figure = figures.Figure(figsize=(9, height), layout="constrained")
    panels = figure.subplots(1, len(table.columns), sharey=True, squeeze=False)
    labels = [label for label, _ in table.rows]
    for place, (name, axes) in enumerate(
      zip(table.columns, panels[0], strict=True)
    ):
      for row, (label, cells) in enumerate(table.rows):
        if score := _SCORE.match(cells[place]):
          mean = float(score[1].replace("−", "-"))
          axes.errorbar(mean, row, xerr=float(score[2] or 0), fmt="o", c=_DOT)
          if label.startswith("★"):
            axes.axvline(mean, color=_SOFT, linewidth=0.8, zorder=0)
      axes.set_title(name, fontsize=9, color=_INK)
      axes.set_yticks(range(len(labels)), labels)
      axes.spines[["top", "right", "left"]].set_visible(False)
      axes.tick_params(axis="y", length=0)
      axes.margins(0.15, 0)
    panels[0][0].set_ylim(len(labels) - 0.5, -0.5)
    path.parent.mkdir(exist_ok=True)
    metadata = {"Date": None, "Description": table.digest}
    figure.savefig(path, metadata=metadata)


def drawn_from(path: pathlib.Path) -> str:
  """Returns the digest of the table that a figure was drawn from."""
  text = path.read_text("utf-8")
  return re.search(r"<dc:description>(\w+)</dc:description>", text)[1]


def main() -> None:
  """Draws the figures whose tables have changed."""
  for path, table in found():
    if not path.exists() or drawn_from(path) != table.digest:
      draw(path, table)


if __name__ == "__main__":
  main()
