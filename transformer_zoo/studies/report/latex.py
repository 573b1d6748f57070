r"""A study's table in LaTeX, with the rules of the package booktabs.

The text is a float for `\input{table.tex}`; `\usepackage{booktabs}` and nothing
else has to stand in the preamble. Letters of Latin scripts, Greek ones and the
signs below are shown by pdfLaTeX; labels in other scripts want XeLaTeX or
LuaLaTeX and a font that has them.
"""

import re

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.studies.statistics.wording import number

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
  cells.STAR: r"$\star$",
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


def to_latex(study: StudyResults, table: Table) -> str:
  """Returns the table, the published scores under ours."""
  head = ["", *map(escape, table.columns)]
  lines = [rf"{' & '.join(head)} \\", r"\midrule"]
  for row in table.rows:
    lines += _lines(study, table, row)
  caption = " ".join([study.question, *cells.legend(study, "In small")])
  body = "\n".join(f"    {line}" for line in lines)
  return (
    f"% {' '.join(study.command.split())}\n"
    "% \\usepackage{booktabs}\n"
    "\\begin{table}\n"
    "  \\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}\n"
    f"  \\caption{{{escape(caption)}}}\\smallskip\n"
    f"  \\label{{tab:{study.name}-{study.suite}}}\n"
    # Centred where it is wider than the text.
    "  \\makebox[\\linewidth]{%\n"
    f"  \\begin{{tabular}}{{l{'r' * len(table.columns)}}}\n"
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


def _lines(study, table, row) -> list[str]:
  of_row = [table.cells[row, column] for column in table.columns]
  ours = [_score(cell, len(study.seeds)) for cell in of_row]
  # {}: a label may begin with what the \\ before would take as its argument.
  label = f"{{}}{escape(cells.label(study, row))}"
  lines = [" & ".join([label, *ours]) + r" \\"]
  if any(cell.published is not None for cell in of_row):
    theirs = [
      ""
      if cell.published is None
      else rf"{{\scriptsize {escape(_published(cell))}}}"
      for cell in of_row
    ]
    lines.append(
      " & ".join([r"\quad{\scriptsize published}", *theirs]) + r" \\"
    )
  return lines


def _published(cell) -> str:
  return number(cell.published, cell.decimals)


def _score(cell, seeds) -> str:
  mean, _, rest = cells.score(cell, seeds).replace("± ", "±").partition(" ")
  text = rf"\textbf{{{escape(mean)}}}" if cell.bold else escape(mean)
  spread = cells.quartiles(cell)
  small = " ".join(filter(None, [rest, spread and f"({spread})"]))
  return text + (small and rf"{{\scriptsize\,{escape(small)}}}")
