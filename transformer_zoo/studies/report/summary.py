"""A study in brief, as Markdown: a section for a page of results."""

import collections
from collections.abc import Iterator

from transformer_zoo.studies import published
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import environments
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics import power
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.wording import signed
from transformer_zoo.training.monitoring.progress import duration


def title(study: StudyResults) -> str:
  """Returns the title of a study in a list of studies."""
  return f"{study.name}, {study.suite_title}"


def to_markdown(analysis: Analysis) -> str:
  """Returns the table, what agrees with the publication, command and cost."""
  study = analysis.study
  blocks = [
    f"## {title(study)}",
    tables.plain(study.question),
    tables.to_markdown(scores_section.scores(analysis)),
    legend(analysis),
    markdown.listed([*sentences(analysis), *analysis.verdicts]),
    cost(study),
    markdown.listed(run.sentence for run in study.broken()),
    markdown.listed(analysis.gaps),
    f"    {study.command}",
  ]
  return markdown.joined(blocks)


def sentences(analysis: Analysis) -> list[str]:
  """Returns what is concluded, also beside the published figures."""
  uneven = budgets.warning(analysis.study, analysis.budgets)
  lines = (analysis.answer, analysis.summary, uneven, analysis.power)
  return [
    *filter(None, lines),
    *_searched(analysis.study),
    *_concluded(analysis),
    *analysis.beside_published,
  ]


def cost(study: StudyResults) -> str:
  """Returns the progress, the time and the machines of a study in a line."""
  words = f"{study.progress()}; {duration(study.seconds)} of computing"
  where = [one.brief for one in environments.read(study)]
  return "; ".join([words, *dict.fromkeys(where)]) + "."


def _searched(study: StudyResults) -> Iterator[str]:
  """How often each alternative of a grid was chosen."""
  chosen = collections.Counter(
    search.runs[search.chosen].alternative
    for search in study.searches()
    if search.chosen is not None
  )
  if chosen:
    counts = [f"{text} ({count})" for text, count in chosen.most_common()]
    yield (
      "Chosen on validation with one seed, for each row and group: "
      f"{', '.join(counts)}."
    )


def _concluded(analysis) -> Iterator[str]:
  """Concluded differences by row, without those that the publication has."""
  in_print = {(one.row, one.column) for one in analysis.findings}
  table, by_row = analysis.table, {}
  for (row, column), found in analysis.comparison.differences.items():
    if found.concluded and (row, column) not in in_print:
      cell = table.cells[row, column]
      difference = signed(cell.difference, cell.decimals)
      by_row.setdefault(row, []).append(f"{column} {difference}")
  for row, differences in by_row.items():
    yield f"{table.labels[row]}: {', '.join(differences)}."


def legend(analysis: Analysis) -> str:
  """Returns the sentence that explains the table."""
  study = analysis.study
  seeds = len(study.seeds)
  words = "One seed; bold the best of the column"
  if seeds > 1:
    words = (
      f"Mean ± standard deviation over {seeds} seeds; bold as in Raffel et al. "
      "2020"
    )
  words += f"; {cells.STAR} the baseline"
  if analysis.blind:
    words += f"; {power.LEGEND.rstrip('.')}"
  losses = [column.name for column in study.columns if column.is_loss]
  if losses:
    words += f"; losses, of which less is better: {', '.join(losses)}"
  if not study.published:
    return f"{words}."
  print_of = published.load(study.published)
  source = print_of.source.partition(",")[0]
  words += f"; in brackets {source}, {print_of.title}."
  if cells.other_columns(study):
    words += " Its tasks are others, so only differences stand beside it."
  return words
