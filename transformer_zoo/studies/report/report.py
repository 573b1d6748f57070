"""The report of a study: one HTML file that needs nothing else."""

from collections.abc import Iterator
import pathlib

from transformer_zoo.studies.report import budgets_section
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import curves_section
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import runs_section
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.report.chart import compact
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.training.monitoring.progress import duration

REPORT_FILE = "report.html"
# Beside the folders of studies; it tells of all (index.py).
INDEX_FILE = "index.html"


def write(analysis: Analysis) -> pathlib.Path:
  """Writes `report.html` into the study's folder.

  Args:
    analysis: what the study comes to; what is missing is left out or named.

  Returns:
    The path of the page.
  """
  study, table = analysis.study, analysis.table
  contents = {
    "Scores": scores_section.main(analysis),
    "What can be concluded": scores_section.conclusions(analysis),
    "Beside the publication": scores_section.beside_published(analysis),
    "Sensitivity": scores_section.sensitivity(study, table),
    "Budgets": budgets_section.section(study, analysis.budgets),
    "Scores of each task": scores_section.tasks(study, table),
    "Learning curves": curves_section.section(study),
    "Where each number comes from": runs_section.sources(study, table),
    "Predictions": runs_section.predictions(study, table),
    "Configuration": runs_section.configurations(study),
    "Runs": runs_section.runs(study),
    "Environment": runs_section.machines(study),
  }
  sections = {
    title: page.section(title, *content) for title, content in contents.items()
  }
  links = [
    page.link(f"#{page.anchor(title.lower())}", page.text(title))
    for title, content in sections.items()
    if content
  ]
  path = study.folder / REPORT_FILE
  parts = [
    *_head(study),
    page.sentences([analysis.summary] if analysis.summary else []),
    *_unfinished(study),
    page.sentences(analysis.gaps, "verdicts failed"),
    f"<nav>{' '.join(links)}</nav>",
    *sections.values(),
  ]
  path.write_text(page.document(study.name, parts), encoding="utf-8")
  return path


def _head(study) -> Iterator[str]:
  beside = cells.source(study)
  over = f"Study on the suite {study.suite}" + (beside and f" · {beside}")
  over = page.text(over)
  if (study.folder.parent / INDEX_FILE).exists():
    over = f"{page.link(f'../{INDEX_FILE}', 'All studies')} · {over}"
  yield f'<p class="over">{over}</p>'
  yield f"<h1>{page.text(study.name)}</h1>"
  yield f'<p class="lead">{page.text(study.question)}</p>'
  seeds = len(study.seeds)
  facts = [f"{len(study.rows)} rows"]
  facts.append("one seed" if seeds == 1 else f"{seeds} seeds")
  facts.append(study.progress())
  tokens = sum(
    run.result.get("tokens", 0)
    for run in study.runs
    if run.result is not None and not run.shared
  )
  if tokens:
    facts.append(f"{compact(tokens)} tokens")
  if study.seconds:
    facts.append(f"{duration(study.seconds)} of computing")
  yield f'<p class="note">{page.text(" · ".join(facts))}</p>'


def _unfinished(study) -> Iterator[str]:
  broken = study.broken()
  others = [run for run in study.unfinished() if run not in broken]
  lines = [f"Not finished: {run.sentence}" for run in broken]
  yield page.sentences(lines, "verdicts failed")
  if others:
    lines = page.sentences([run.sentence for run in others])
    yield page.details(f"Not finished: {len(others)} runs", lines)
