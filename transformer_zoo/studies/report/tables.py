r"""Tables of reports, as HTML, Markdown and LaTeX.

`templates/parts.html` writes them as HTML. The LaTeX is a float for
`\input{table.tex}` with the rules of booktabs: `\usepackage{booktabs}` and
nothing else has to stand in the preamble. Letters of Latin scripts, Greek ones
and the signs below are shown by pdfLaTeX; labels in other scripts want XeLaTeX
or LuaLaTeX and a font that has them.
"""

from collections.abc import Sequence
import dataclasses
import re

# What would be emphasis or a tag in Markdown, "p < 0.001" apart.
_MARKUP = re.compile(r"\*|<(?=[A-Za-z/!?])")
_SPECIAL = {
  "\\": r"\textbackslash{}",
  "{": r"\{",
  "}": r"\}",
  "%": r"\%",
  "&": r"\&",
  "#": r"\#",
  "$": r"\$",
  "_": r"\_",
  "^": r"\textasciicircum{}",
  "~": r"\textasciitilde{}",
  "<": r"\textless{}",
  ">": r"\textgreater{}",
  "|": r"\textbar{}",
  "±": r"$\pm$",
  "−": r"$-$",
  "×": r"$\times$",
  "→": r"$\to$",
  "≤": r"$\leq$",
  "≥": r"$\geq$",
  "≈": r"$\approx$",
  "≠": r"$\neq$",
  "∞": r"$\infty$",
  "²": r"$^2$",
  "…": r"\ldots{}",
  "—": "---",
  "\u00a0": "~",
  "★": r"$\star$",
} | {
  letter: rf"$\{name}$"
  for letter, name in {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "Δ": "Delta"},
    **{"ε": "varepsilon", "ζ": "zeta", "η": "eta", "θ": "theta", "κ": "kappa"},
    **{"λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho"},
    **{"σ": "sigma", "Σ": "Sigma", "τ": "tau", "φ": "varphi", "χ": "chi"},
    **{"ψ": "psi", "ω": "omega", "Ω": "Omega"},
  }.items()
}


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


def turned(table: Table) -> Table:
  """Returns a table whose columns are the lines of another, without marks."""
  head, *lines = zip(table.head, *table.lines, strict=True)
  return Table(head=head, lines=lines)


def to_markdown(table: Table) -> str:
  """Returns a table whose columns are as wide as their widest cell.

  Titles above groups of columns are left out.
  """
  head = [plain(title.replace("\n", " ")) for title in table.head]
  lines = [head, *([*map(_markdown, line)] for line in table.lines)]
  lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  lines.insert(1, ["-" * width for width in widths])
  return "\n".join(
    "| "
    + " | ".join(
      text.ljust(width) for text, width in zip(line, widths, strict=True)
    )
    + " |"
    for line in lines
  )


def plain(text: str) -> str:
  """Escapes a label or a question for Markdown."""
  return _MARKUP.sub(r"\\\g<0>", text)


def _markdown(cell: str | Cell) -> str:
  if isinstance(cell, str):
    return plain(cell)
  text = " ± ".join(filter(None, [cell.text, cell.deviation]))
  text = f"**{text}**" if cell.bold else text
  small = [f"({line})" for line in cell.small]
  published = [f"[{cell.published}]"] if cell.published else []
  return " ".join([text, *small, *published])


def to_latex(table: Table, *, comment: str, caption: str, label: str) -> str:
  """Returns the table, the published scores under ours.

  Args:
    table: A table without groups of columns.
    comment: The line before the table.
    caption: The text of its caption.
    label: The name for references.
  """
  lines = [_latex_line(["", *map(escape, table.head[1:])]), r"\midrule"]
  for name, *line in table.lines:
    # {}: a label may begin with what the \\ before would take as its argument.
    lines.append(_latex_line([f"{{}}{escape(name)}", *map(_latex, line)]))
    if any(cell.published for cell in line):
      published = [_small(cell.published) for cell in line]
      lines.append(_latex_line([r"\quad" + _small("published"), *published]))
  body = "\n".join(f"    {line}" for line in lines)
  return (
    f"% {comment}\n"
    "% \\usepackage{booktabs}\n"
    "\\begin{table}\n"
    "  \\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}\n"
    f"  \\caption{{{escape(caption)}}}\\smallskip\n"
    f"  \\label{{{label}}}\n"
    # Centred where it is wider than the text.
    "  \\makebox[\\linewidth]{%\n"
    f"  \\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}\n"
    "    \\toprule\n"
    f"{body}\n"
    "    \\bottomrule\n"
    "  \\end{tabular}}\n"
    "\\end{table}\n"
  )


def escape(text: str) -> str:
  """Returns plain text as LaTeX shows it, `2^16` as a power."""
  text = "".join(_SPECIAL.get(character, character) for character in text)
  return re.sub(r"\\textasciicircum\{\}(\d+)", r"$^{\1}$", text)


def _latex_line(parts: Sequence[str]) -> str:
  return " & ".join(parts) + r" \\"


def _latex(cell: Cell) -> str:
  text = rf"\textbf{{{escape(cell.text)}}}" if cell.bold else escape(cell.text)
  small = [f"±{cell.deviation}"] if cell.deviation else []
  small += [f"({line})" for line in cell.small]
  return text + _small(" ".join(small), r"\,")


def _small(text: str, before: str = " ") -> str:
  return text and rf"{{\scriptsize{before}{escape(text)}}}"
