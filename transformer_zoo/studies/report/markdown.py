"""Markdown: the table of a study, and the parts that its texts share."""

from collections.abc import Callable, Iterable, Sequence
import re

from transformer_zoo.studies.report import cells
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.scores import Cell
from transformer_zoo.studies.statistics.scores import TaskMetric
from transformer_zoo.studies.statistics.wording import compact
from transformer_zoo.studies.statistics.wording import number
from transformer_zoo.studies.statistics.wording import signed
from transformer_zoo.training.monitoring.progress import duration

# What would be emphasis or a tag, "p < 0.001" apart.
_MARKUP = re.compile(r"\*|<(?=[A-Za-z/!?])")


def study_table(analysis: Analysis) -> str:
  """Returns `table.md`: the table, its conclusions and what is missing."""
  study, table = analysis.study, analysis.table
  blocks = [f"# {study.name}, suite {study.suite_title}"]
  blocks.append(plain(study.question))
  blocks.append(scores(analysis, table.columns))
  blocks.append(listed(cells.legend(study, "In brackets", analysis.blind)))
  blocks.append(listed(analysis.gaps))
  if table.others:
    blocks.append(f"## Differences from {table.labels[table.baseline]}")
    blocks.append(differences(analysis))
    lines = [analysis.summary, analysis.power, *analysis.concluded]
    blocks.append(listed(lines))
    blocks.append(listed(analysis.comparison.notes))
  if analysis.agreements:
    ranks = [one.sentence for one in analysis.agreements.values()]
    blocks.append("## Beside the publication")
    blocks.append(listed([*analysis.beside_published, *ranks]))
    blocks.append(listed(analysis.verdicts))
  if analysis.budgets:
    blocks.append("## Budgets")
    blocks.append(costs(analysis))
    sentences = budgets.sentences(study, analysis.budgets)
    blocks.append(listed([*sentences, budgets.NOTE]))
  if table.every_metric:
    blocks.append("## Scores of each task")
    blocks.append(scores(analysis, table.every_metric, turned=True))
  if analysis.open:
    blocks += ["## What cannot be concluded", listed(analysis.open)]
  if study.unfinished():
    runs = [run.sentence for run in study.unfinished()]
    blocks += ["## Not finished", study.progress(), listed(runs)]
  blocks += ["## Command", f"    {study.command}"]
  return joined(blocks)


def scores(
  analysis: Analysis, columns: Sequence[str | TaskMetric], turned: bool = False
) -> str:
  """Returns our scores with the published ones in brackets.

  Args:
    analysis: The analysis of the study.
    columns: Columns of the table, or metrics of tasks.
    turned: Whether each column is a line.
  """
  seeds = len(analysis.study.seeds)

  def score(cell: Cell) -> str:
    text = cells.score(cell, seeds)
    text = f"**{text}**" if cell.bold else text
    if spread := cells.quartiles(cell):
      text += f" ({spread})"
    if cell.published is None:
      return text
    return f"{text} [{number(cell.published, cell.decimals)}]"

  return _rows(analysis, analysis.table.rows, columns, score, turned)


def differences(analysis: Analysis) -> str:
  """Returns differences from the baseline, published ones in brackets."""
  seeds = len(analysis.study.seeds)

  def difference(cell: Cell) -> str:
    text = cells.difference(cell, seeds)
    if cell.published_difference is None:
      return text
    published = signed(cell.published_difference, cell.decimals)
    return f"{text} [{published}]"

  table = analysis.table
  return _rows(analysis, table.others, table.columns, difference)


def costs(analysis: Analysis) -> str:
  """Returns what each row costs with one seed, beside its share.

  The share is that of the baseline's cost, left out where costs are equal.
  """
  found = analysis.budgets
  base = found.get(analysis.study.baseline)
  quantities = budgets.quantities(found)
  lines = [["", *quantities, "time"]]
  for row, budget in found.items():
    line = [plain(cells.label(analysis.study, row))]
    for of in quantities.values():
      share = budgets.share(of(budget), base and of(base))
      line.append(f"{compact(of(budget))} {share}".rstrip())
    lines.append([*line, duration(budget.seconds)])
  return grid(lines)


def plain(text: str) -> str:
  """Escapes a label or a question for Markdown."""
  return _MARKUP.sub(r"\\\g<0>", text)


def grid(lines: Sequence[Sequence[str]]) -> str:
  """Returns a table whose columns are as wide as their widest cell.

  Args:
    lines: The cells as plain text, the line of titles first.
  """
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


def listed(lines: Iterable[str]) -> str:
  """Returns a list, without the lines that are empty."""
  return "\n".join(f"- {plain(line)}" for line in lines if line)


def joined(blocks: Iterable[str]) -> str:
  """Returns a text of blocks, without those that are empty."""
  return "\n\n".join(filter(None, blocks)) + "\n"


def _rows(
  analysis: Analysis,
  rows: Sequence[str],
  columns: Sequence[str | TaskMetric],
  text: Callable[[Cell], str],
  turned: bool = False,
) -> str:
  study, table = analysis.study, analysis.table
  heads = (cells.head(column, analysis.blind) for column in columns)
  lines = [["", *map(plain, heads)]]
  for row in rows:
    label = plain(cells.label(study, row))
    lines.append([label, *(text(table.cells[row, c]) for c in columns)])
  return grid([*zip(*lines, strict=True)] if turned else lines)
