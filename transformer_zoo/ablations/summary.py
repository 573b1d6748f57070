"""A study in brief, as Markdown: a section for a page of results."""

from transformer_zoo.ablations import cells
from transformer_zoo.ablations import environments
from transformer_zoo.ablations import markdown
from transformer_zoo.ablations import published
from transformer_zoo.ablations.analysis import Analysis
from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.training.progress import duration


def title(study: StudyResults) -> str:
  """Returns what a list of studies calls a study."""
  return f"{study.name}, {study.suite}"


def to_markdown(analysis: Analysis) -> str:
  """Returns the table, what agrees with the publication, command and cost."""
  study = analysis.study
  blocks = [
    f"## {title(study)}",
    study.question,
    markdown.scores(analysis, analysis.table.columns),
    _explained(study),
    markdown.listed([analysis.summary, *analysis.beside_published]),
    cost(study),
    markdown.listed(run.sentence for run in study.broken()),
    f"    {study.command}",
  ]
  return markdown.joined(blocks)


def cost(study: StudyResults) -> str:
  """Returns how far a study is, what it took and where it ran, in a line."""
  words = f"{study.progress()}; {duration(study.seconds)} of computing"
  where = [one.brief for one in environments.read(study)]
  return "; ".join([words, *dict.fromkeys(where)]) + "."


def _explained(study) -> str:
  seeds = len(study.seeds)
  words = "One seed; bold the best of the column"
  if seeds > 1:
    words = (
      f"Mean ± standard deviation over {seeds} seeds; bold as in Raffel et al. "
      "2020"
    )
  words += f"; {cells.STAR} the baseline"
  losses = [column.name for column in study.columns if column.is_loss]
  if losses:
    words += f"; losses, of which less is better: {', '.join(losses)}"
  if not study.published:
    return f"{words}."
  print_of = published.load(study.published)
  source = print_of.source.partition(",")[0]
  words += f"; in brackets {source}, {print_of.title}."
  if cells.other_columns(study):
    words += " Its tasks are others: directions compare, levels do not."
  return words
