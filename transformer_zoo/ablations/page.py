"""The page that a report is written on: style, sections, nothing external."""

from collections.abc import Iterable, Sequence
import html

# Eight colours that tell apart on white and on black and under the common
# colour-vision deficiencies (Okabe and Ito 2008, lighter ones for the dark).
_STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f7f9; --ink: #1c2127; --soft: #5c6670;
  --grid: #dde1e6; --accent: #0b63b0; --added: #dff3e4; --removed: #fbe3e1;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #008f6b;
  --series-3: #b8568f; --series-4: #b98500; --series-5: #3a9bd1;
  --series-6: #6b5bb5; --series-7: #7a7a7a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1d2127; --ink: #e6e9ed; --soft: #9aa5b1;
    --grid: #343b44; --accent: #6db8ff; --added: #173d26; --removed: #4b2320;
    --series-0: #4aa8e8; --series-1: #ff8a3d; --series-2: #2fc79b;
    --series-3: #e48fc0; --series-4: #e6b422; --series-5: #8ad0f5;
    --series-6: #a99bea; --series-7: #a8a8a8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 5rem; max-width: 66rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .7rem; padding-top: .9rem;
     border-top: 1px solid var(--grid); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p, li { max-width: 46rem; }
a { color: var(--accent); }
.lead { font-size: 1.15rem; color: var(--soft); margin: 0 0 1.2rem; }
.note, figcaption { color: var(--soft); font-size: .9rem; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .92rem;
        font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .8rem; text-align: left; vertical-align: top;
         border-bottom: 1px solid var(--grid); }
th { font-weight: 600; }
thead th { border-bottom: 2px solid var(--soft); white-space: nowrap; }
table.scores td { text-align: right; white-space: nowrap; }
table.scores thead th:not(:first-child) { text-align: right; }
table.scores tbody tr:first-child { background: var(--card); }
td small { color: var(--soft); display: block; font-size: .8rem; }
b.best { color: var(--accent); }
pre { background: var(--card); border-radius: 6px; padding: .8rem 1rem;
      overflow-x: auto; font: .82rem/1.5 ui-monospace, Menlo, Consolas,
      monospace; margin: .5rem 0; }
pre ins, pre del { text-decoration: none; display: inline-block;
                   min-width: 100%; }
pre ins { background: var(--added); } pre del { background: var(--removed); }
details { margin: .5rem 0; }
summary { cursor: pointer; font-weight: 600; }
figure { margin: .8rem 0; }
figure svg { height: auto; display: block; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .5rem 0; }
.legend span::before { content: ""; display: inline-block; width: 1.1rem;
  height: .28rem; border-radius: 2px; margin-right: .45rem;
  vertical-align: middle; background: var(--colour); }
.verdict { background: var(--card); border-left: 4px solid var(--accent);
           padding: .7rem 1rem; border-radius: 0 6px 6px 0; margin: .8rem 0; }
.failed { border-left-color: var(--series-1); }
table.words th, table.words td { max-width: 22rem; min-width: 8rem;
  font-weight: 400; overflow-wrap: anywhere; white-space: pre-wrap; }
table.words thead th { font-weight: 600; }
table.runs { font-size: .85rem; }
table.runs th, table.runs td { white-space: nowrap; font-weight: 400; }
table.runs thead th { font-weight: 600; }
"""


def text(value: object) -> str:
  """Returns a value as text that HTML shows as it is."""
  return html.escape(str(value))


def document(title: str, sections: Iterable[str]) -> str:
  """Returns a whole page.

  Args:
    title: plain text.
    sections: HTML.
  """
  return (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    + "\n".join(sections)
    + "\n</body>\n</html>\n"
  )


def section(title: str, *content: str) -> str:
  """Returns a titled section; "" without content."""
  content = "\n".join(filter(None, content))
  if not content:
    return ""
  return f"<section>\n<h2>{text(title)}</h2>\n{content}\n</section>"


def table(
  head: Sequence[str],
  lines: Iterable[Sequence[str]],
  *,
  kind: str = "",
) -> str:
  """Returns a table that scrolls by itself where the page is narrow.

  Args:
    head: column titles, plain text.
    lines: cells, HTML; the first of a line is its title.
    kind: CSS class of the table.
  """
  top = "".join(f'<th scope="col">{text(one)}</th>' for one in head)
  body = "\n".join(
    f'<tr><th scope="row">{first}</th>'
    + "".join(f"<td>{cell}</td>" for cell in rest)
    + "</tr>"
    for first, *rest in lines
  )
  return (
    f'<div class="scroll"><table class="{kind}">\n<thead><tr>{top}</tr>'
    f"</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
  )


def figure(svg: str | None, caption: str) -> str:
  """Returns a plot with its caption; "" without a plot."""
  if svg is None:
    return ""
  return (
    f'<figure><div class="scroll">{svg}</div>'
    f"<figcaption>{text(caption)}</figcaption></figure>"
  )


def details(title: str, *content: str, opened: bool = False) -> str:
  """Returns content that folds away under a title."""
  state = " open" if opened else ""
  inner = "\n".join(content)
  return (
    f"<details{state}><summary>{text(title)}</summary>\n{inner}\n</details>"
  )


def code(value: str) -> str:
  """Returns text set as a program."""
  return f"<pre>{text(value)}</pre>"


def legend(names: Sequence[str], num_colours: int) -> str:
  """Returns the colours of the rows."""
  marks = "".join(
    f'<span style="--colour:var(--series-{index % num_colours})">'
    f"{text(name)}</span>"
    for index, name in enumerate(names)
  )
  return f'<div class="legend">{marks}</div>'
