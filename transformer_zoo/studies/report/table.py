"""A study's table as Markdown and CSV; `write` writes it in every form."""

import csv
import io

from transformer_zoo.studies import statistics
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import latex
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import summary
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.scores import Table


def to_markdown(analysis: Analysis) -> str:
  """Returns the table, what it shows and what is missing, as Markdown."""
  study, table = analysis.study, analysis.table
  blocks = [f"# {study.name}, suite {study.suite}"]
  blocks.append(markdown.plain(study.question))
  blocks.append(markdown.scores(analysis, table.columns))
  blocks.append(markdown.listed(cells.legend(study, "In brackets")))
  blocks.append(markdown.listed(analysis.gaps))
  if table.others:
    blocks.append(f"## Differences from {table.labels[table.baseline]}")
    blocks.append(markdown.differences(analysis))
    blocks.append(markdown.listed([analysis.summary, *analysis.concluded]))
    blocks.append(markdown.listed(analysis.comparison.notes))
  if analysis.agreements:
    ranks = [one.sentence for one in analysis.agreements.values()]
    blocks.append("## Beside the publication")
    blocks.append(markdown.listed([*analysis.beside_published, *ranks]))
  if analysis.budgets:
    blocks.append("## Budgets")
    blocks.append(markdown.costs(analysis))
    sentences = budgets.sentences(study, analysis.budgets)
    blocks.append(markdown.listed([*sentences, budgets.NOTE]))
  if table.every_metric:
    blocks.append("## Scores of each task")
    blocks.append(markdown.scores(analysis, table.every_metric, turned=True))
  if analysis.open:
    blocks += ["## What cannot be concluded", markdown.listed(analysis.open)]
  if study.unfinished():
    runs = [run.sentence for run in study.unfinished()]
    blocks += ["## Not finished", study.progress(), markdown.listed(runs)]
  blocks += ["## Command", f"    {study.command}"]
  return markdown.joined(blocks)


def to_csv(study: StudyResults, table: Table) -> str:
  """Returns one line per row and column, with all digits and every seed."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(
    ["row", "label", "group", "column", "seeds", "mean"]
    + ["standard_deviation", "difference", "bold"]
    + ["published", "published_difference"]
    + [f"seed_{seed}" for seed in study.seeds]
  )
  named = [
    (column.of_group, column.name, column.name) for column in study.columns
  ]
  named += [(one.group, one.name, one) for one in table.every_metric]
  for group, name, column in named:
    for row, cell in table.of_column(column).items():
      line = [row, table.labels[row], group, name, len(cell.values)]
      line += [cell.mean, cell.deviation, cell.difference, cell.bold]
      line += [cell.published, cell.published_difference]
      writer.writerow(line + [cell.values.get(seed) for seed in study.seeds])
  return text.getvalue()


def write(analysis: Analysis) -> str:
  """Writes tables and statistics into the study's folder.

  `table.md`, `summary.md`, `table.csv`, `table.tex`, `differences.csv` and
  `agreement.csv`.

  Returns:
    The text of `table.md`.
  """
  study, table = analysis.study, analysis.table
  texts = {
    "table.md": to_markdown(analysis),
    "summary.md": summary.to_markdown(analysis),
    "table.csv": to_csv(study, table),
    "table.tex": latex.to_latex(study, table),
    "differences.csv": statistics.differences_csv(analysis.comparison),
    "agreement.csv": statistics.agreements_csv(analysis.agreements),
  }
  for name, text in texts.items():
    (study.folder / name).write_text(text, encoding="utf-8")
  return texts["table.md"]
