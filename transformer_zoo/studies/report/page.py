"""HTML pages of reports, rendered from the Jinja templates in `templates/`.

A page is one file that needs no network: style, script and charts stand in it.
Templates escape every text; charts alone are markup.
"""

from collections.abc import Sequence
import dataclasses
import pathlib

import jinja2

_TEMPLATES = pathlib.Path(__file__).parent / "templates"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
  """A cell of a table that is sorted by a number or shows more than text.

  Attributes:
    text: The text.
    order: The number that the table is sorted by; a cell without one stays
      last.
    href: The target of a link around the text, or "".
    kind: The CSS class of that link.
    bold: Whether the text is bold.
    deviation: The standard deviation, shown after the text, or "".
    small: Lines in small print below the text.
    published: The published figure, shown below the text, or "".
    views: Cells of which the reader sees the one of the chosen view.
  """

  text: str = "—"
  order: float | None = None
  href: str = ""
  kind: str = ""
  bold: bool = False
  deviation: str = ""
  small: Sequence[str] = ()
  published: str = ""
  views: Sequence["Cell"] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
  """A table that scrolls by itself on a narrow page.

  Attributes:
    head: The titles of the columns.
    lines: The cells of each line, the first being the title of the line. A list
      of cells is shown as one cell, separated by commas.
    kind: The CSS classes; `sortable` lets the reader sort by a column.
    marked: The index of the baseline's line, or None.
    spans: Titles above groups of columns, each with its number of columns.
  """

  head: Sequence[str]
  lines: Sequence[Sequence[str | Cell | Sequence[Cell]]]
  kind: str = ""
  marked: int | None = None
  spans: Sequence[tuple[str, int]] = ()


def anchor(*words: str) -> str:
  """Returns words as the name of a place in a page."""
  return "-".join(words).replace(" ", "-")


def render(template: str, **values: object) -> str:
  """Renders a template.

  Args:
    template: The name of a file in `templates/`.
    **values: The values that the template uses.

  Returns:
    The page as HTML.
  """
  return _ENVIRONMENT.get_template(template).render(values)


_ENVIRONMENT = jinja2.Environment(
  loader=jinja2.FileSystemLoader(_TEMPLATES),
  autoescape=True,
  undefined=jinja2.StrictUndefined,
  trim_blocks=True,
  lstrip_blocks=True,
)
_ENVIRONMENT.filters["anchor"] = anchor
