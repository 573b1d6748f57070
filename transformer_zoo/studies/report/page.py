"""The page that a report is written on: HTML that needs nothing beside it."""

from collections.abc import Iterable, Sequence
import dataclasses
import html
import pathlib

from transformer_zoo.studies.report import chart

_HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Cell:
  """A cell of a table.

  Attributes:
    html: what it shows.
    order: what it is sorted by: a number, or None where it has none and stays
      last.
  """

  html: str
  order: float | None = None


def text(value: object) -> str:
  """Returns a value as text that HTML shows as it is."""
  return html.escape(str(value))


def document(title: str, sections: Iterable[str]) -> str:
  """Returns a whole page.

  Args:
    title: plain text.
    sections: HTML.
  """
  style = (_HERE / "page.css").read_text(encoding="utf-8")
  script = (_HERE / "page.js").read_text(encoding="utf-8")
  return (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
    + "\n".join(filter(None, sections))
    + f"\n<script>\n{script}</script>\n</body>\n</html>\n"
  )


def section(title: str, *content: str) -> str:
  """Returns a titled section, its title in small letters its anchor.

  Returns:
    HTML; "" without content.
  """
  content = "\n".join(filter(None, content))
  if not content:
    return ""
  place = anchor(title.lower())
  head = f'<section id="{place}">\n<h2>{text(title)}</h2>\n'
  return f"{head}{content}\n</section>"


def anchor(*words: str) -> str:
  """Returns words as the name of a place in the page."""
  return "-".join(words).replace(" ", "-")


def table(
  head: Sequence[str],
  lines: Iterable[Sequence[str | Cell]],
  *,
  kind: str = "",
  marked: Sequence[int] = (),
  spans: Sequence[tuple[str, int]] = (),
) -> str:
  """Returns a table that scrolls by itself where the page is narrow.

  Args:
    head: column titles, plain text.
    lines: cells; the first of a line is its title.
    kind: CSS classes of the table; `sortable` gives it buttons.
    marked: lines that are the baseline's.
    spans: titles over several columns each, with how many.
  """
  over = "".join(
    f'<th colspan="{width}" scope="colgroup">{text(title)}</th>'
    for title, width in spans
  )
  over = over and f"<tr>{over}</tr>"
  # Names may break after an underscore where there is no room.
  titles = (text(one).replace("_", "_<wbr>") for one in head)
  top = "".join(f'<th scope="col">{title}</th>' for title in titles)
  body = "\n".join(
    ('<tr class="baseline">' if index in marked else "<tr>")
    + _cell("th", line[0], ' scope="row"')
    + "".join(_cell("td", cell) for cell in line[1:])
    + "</tr>"
    for index, line in enumerate(lines)
  )
  return (
    f'<div class="scroll"><table class="{kind}">\n<thead>{over}<tr>{top}</tr>'
    f"</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
  )


def _cell(tag: str, cell: str | Cell, attributes: str = "") -> str:
  if isinstance(cell, Cell):
    order = "" if cell.order is None else repr(float(cell.order))
    attributes += f' data-order="{order}"'
    cell = cell.html
  return f"<{tag}{attributes}>{cell}</{tag}>"


def link(target: str, label: str, kind: str = "") -> str:
  """Returns a link.

  Args:
    target: an address or `#anchor`.
    label: HTML.
    kind: CSS class.
  """
  kind = kind and f' class="{kind}"'
  return f'<a{kind} href="{text(target)}">{label}</a>'


def figure(svg: str, caption: str = "") -> str:
  """Returns a plot with its caption; "" without a plot."""
  caption = caption and f"<figcaption>{text(caption)}</figcaption>"
  return svg and f"<figure>{svg}{caption}</figure>"


def panels(svgs: Iterable[str], caption: str = "") -> str:
  """Returns plots side by side, as many as the page is wide."""
  svgs = "\n".join(filter(None, svgs))
  return figure(svgs and f'<div class="panels">{svgs}</div>', caption)


def details(title: str, *content: str, opened: bool = False) -> str:
  """Returns content that folds away under a title."""
  state = " open" if opened else ""
  inner = "\n".join(content)
  return (
    f"<details{state}><summary>{text(title)}</summary>\n{inner}\n</details>"
  )


def views(name: str, titles: Sequence[str], *content: str) -> str:
  """Returns a choice of what to see, the first chosen.

  Args:
    name: unique in the page.
    titles: plain text, at most four.
    content: HTML in which elements of the classes `view view-0`, ... are seen
      where that title is chosen.
  """
  first, *_ = inputs = [
    f'<label><input type="radio" name="{name}" value="{index}"> '
    f"{text(title)}</label>"
    for index, title in enumerate(titles)
  ]
  inputs[0] = first.replace("<input ", "<input checked ")
  return (
    '<div class="views">\n<fieldset class="choice"><legend>Show</legend>'
    + "\n".join(inputs)
    + "</fieldset>\n"
    + "\n".join(content)
    + "\n</div>"
  )


def code(value: str) -> str:
  """Returns text set as a program."""
  return f"<pre>{text(value)}</pre>"


def sentences(lines: Sequence[str], kind: str = "verdicts") -> str:
  """Returns plain sentences as a list that stands out; "" without any."""
  items = "\n".join(f"<li>{text(line)}</li>" for line in lines)
  return items and f'<ul class="{kind}">\n{items}\n</ul>'


def legend(labels: Sequence[str]) -> str:
  """Returns the colours and line styles of the rows (`chart.of_row`)."""
  marks = []
  for place, label in enumerate(labels):
    colour, dashes = chart.of_row(place)
    marks.append(
      f'<span><svg viewBox="0 0 22 4"><path class="line" d="M0 2H22" '
      f'style="color:{colour}" stroke-dasharray="{dashes}"/></svg>'
      f"{text(label)}</span>"
    )
  return f'<div class="legend">{"".join(marks)}</div>'
