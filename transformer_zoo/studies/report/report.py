"""The report of a study: one HTML page that needs no other file."""

from collections.abc import Iterator
import pathlib

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import charts
from transformer_zoo.studies.report import configurations
from transformer_zoo.studies.report import learning_curves
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import runs_section
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.wording import compact
from transformer_zoo.training.monitoring.progress import duration

REPORT_FILE = "report.html"
# Lies above the folders of studies and lists all of them (index.py).
INDEX_FILE = "index.html"


def write(analysis: Analysis) -> pathlib.Path:
  """Writes `report.html` into the study's folder.

  Args:
    analysis: The analysis of the study. Sections without content are left out.

  Returns:
    The path of the page.
  """
  study, table = analysis.study, analysis.table
  broken = study.broken()
  path = study.folder / REPORT_FILE
  text = page.render(
    "study.html",
    title=study.name,
    study=study,
    source=cells.source(study),
    index=(study.folder.parent / INDEX_FILE).exists() and INDEX_FILE,
    facts=" · ".join(_facts(study)),
    summary=[*filter(None, (analysis.answer, analysis.summary))],
    warning=budgets.warning(study, analysis.budgets),
    gaps=analysis.gaps,
    broken=[f"Not finished: {run.sentence}" for run in broken],
    unfinished=[
      run.sentence for run in study.unfinished() if run not in broken
    ],
    labels=[info.label for info in study.rows.values()],
    num_colours=charts.NUM_COLOURS,
    dashes=charts.DASHES,
    sections={
      "Scores": scores_section.main(analysis),
      "What can be concluded": scores_section.conclusions(analysis),
      "Beside the publication": scores_section.beside_published(analysis),
      "Scores over trained parameters": scores_section.over_trained(analysis),
      "Sensitivity": scores_section.sensitivity(study, table),
      "Scores over columns": scores_section.over_columns(table),
      "Scores over costs": scores_section.over_costs(analysis),
      "Budgets": runs_section.budget_table(study, analysis.budgets),
      "Search": runs_section.search(study),
      "Scores of each task": scores_section.tasks(study, table),
      "Learning curves": learning_curves.section(study),
      "Where each number comes from": runs_section.sources(study, table),
      "Predictions": runs_section.predictions(study, table),
      "Configuration": configurations.section(study),
      "Runs": runs_section.runs(study),
      "Environment": runs_section.machines(study),
    },
  )
  path.write_text(text, encoding="utf-8")
  return path


def _facts(study: StudyResults) -> Iterator[str]:
  """The size of a study, how far it is and what it has cost."""
  yield f"{len(study.rows)} rows"
  seeds = len(study.seeds)
  yield "one seed" if seeds == 1 else f"{seeds} seeds"
  yield study.progress()
  tokens = sum(
    run.result.get("tokens", 0)
    for run in study.runs
    if run.result is not None and not run.shared
  )
  if tokens:
    yield f"{compact(tokens)} tokens"
  if study.seconds:
    yield f"{duration(study.seconds)} of computing"
