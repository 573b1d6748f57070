"""Several studies beside one another: a line for each, and each in brief."""

from collections.abc import Sequence
import os
import pathlib
import re

from transformer_zoo.errors import UserError
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import report
from transformer_zoo.studies.report import summary
from transformer_zoo.studies.statistics import Verdict
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.training.monitoring.progress import duration

MARKDOWN_FILE = "index.md"
_TITLE = "Results"
_HEAD = (
  *("study", "more than\nchance", "as\npublished", "against\nit"),
  *("Kendall’s\ntau", "state", "rows", "seeds", "computing"),
)
_NOTES = (
  "More than chance: differences from the baseline that are, of all, corrected "
  "for all comparisons of the study.",
  "As published, against it: of the differences that the publication tells "
  "apart, those that are told apart here too, and those whose opposite is.",
  "Kendall’s tau: whether rows stand in the published order, the mean over "
  "columns with its 95 % interval; of studies with three published rows or "
  "more.",
  "Computing: of all runs of a study, those that it shares with others too.",
)


def folders(folder: str | os.PathLike[str]) -> list[pathlib.Path]:
  """Returns the folders of the studies that lie in a folder, in their order.

  Raises:
    UserError: there are none.
  """
  found = [
    path.parent for path in pathlib.Path(folder).glob(f"*/{results.STUDY_FILE}")
  ]
  if not found:
    raise UserError(
      f"{folder} is neither the folder of a study, which has a "
      f"{results.STUDY_FILE}, nor that above the folders of studies, which is "
      "the --output_dir of `zoo ablate`"
    )
  return sorted(found, key=_in_order)


def to_markdown(analyses: Sequence[Analysis]) -> str:
  """Returns the table of the studies, and below it each in brief."""
  lines = [[head.replace("\n", " ") for head in _HEAD]]
  for one in analyses:
    name, *others = _line(one)
    place = re.sub(r"[^\w\- ]", "", summary.title(one.study).lower())
    link = f"[{name.html}](#{place.replace(' ', '-')})"
    lines.append([link, *(cell.html for cell in others)])
  return markdown.joined(
    [
      f"# {_TITLE}",
      _facts(analyses),
      markdown.grid(lines),
      markdown.listed(_NOTES),
      *(summary.to_markdown(one).rstrip() for one in analyses),
    ]
  )


def to_html(analyses: Sequence[Analysis]) -> str:
  """Returns the same as a page, with links to the pages of the studies."""
  lines = []
  for one in analyses:
    name, *others = _line(one)
    lines.append([page.link(_address(one.study), name.html), *others])
  table = page.table(_HEAD, lines, kind="numbers sortable")
  return page.document(
    _TITLE,
    [
      f"<h1>{_TITLE}</h1>",
      f'<p class="note">{page.text(_facts(analyses))}</p>',
      table,
      *(f'<p class="note">{page.text(note)}</p>' for note in _NOTES),
      *map(_section, analyses),
    ],
  )


def write(
  folder: str | os.PathLike[str], analyses: Sequence[Analysis]
) -> pathlib.Path:
  """Writes `index.html` and `index.md` above the studies.

  Returns:
    The path of the page.
  """
  path = pathlib.Path(folder) / report.INDEX_FILE
  path.write_text(to_html(analyses), encoding="utf-8")
  path.with_name(MARKDOWN_FILE).write_text(
    to_markdown(analyses), encoding="utf-8"
  )
  return path


def _section(one: Analysis) -> str:
  study = one.study
  more = page.link(_address(study), "scores, plots, predictions, runs")
  return page.section(
    summary.title(study),
    f"<p>{page.text(study.question)} {more}</p>",
    page.sentences(summary.sentences(one)),
    page.sentences([run.sentence for run in study.broken()], "verdicts failed"),
    f'<p class="note">{page.text(summary.cost(study))}</p>',
    page.code(study.command),
  )


def _line(one: Analysis) -> list[page.Cell]:
  """What the table says of a study, in plain text."""
  study, tau = one.study, one.tau
  compared = one.comparison.num_comparisons
  in_print = compared and len(one.findings) - one.count(Verdict.NEW)
  order = "—"
  if tau is not None:
    order = cells.signed(tau.tau)
    if tau.low is not None:
      order += f" ({cells.signed(tau.low)} to {cells.signed(tau.high)})"
  return [
    page.Cell(summary.title(study)),
    _part(len(one.concluded), compared),
    _part(one.count(Verdict.SAME), in_print),
    _part(one.count(Verdict.OPPOSITE), in_print),
    page.Cell(order, tau and tau.tau),
    page.Cell(_state(study)),
    page.Cell(str(len(study.rows)), len(study.rows)),
    page.Cell(str(len(study.seeds)), len(study.seeds)),
    page.Cell(duration(study.seconds), study.seconds),
  ]


def _part(number: int, of: int) -> page.Cell:
  return page.Cell(f"{number} of {of}", number) if of else page.Cell("—")


def _state(study: StudyResults) -> str:
  """`finished`, or how many of its runs are and how many have failed."""
  states = [run.state for run in study.runs if not run.shared]
  done, failed = map(states.count, (run_progress.FINISHED, run_progress.FAILED))
  if done == len(states):
    return run_progress.FINISHED
  text = f"{done} of {len(states)} runs"
  return f"{text}, {failed} failed" if failed else text


def _facts(analyses) -> str:
  """How many studies there are, and what all of them took."""
  seconds = {
    run.folder: run.result.get("seconds", 0.0)
    for one in analyses
    for run in one.study.runs
    if run.result is not None
  }
  return (
    f"{len(analyses)} studies; {len(seconds)} finished runs, those that "
    f"studies share once; {duration(sum(seconds.values()))} of computing."
  )


def _address(study: StudyResults) -> str:
  return f"{study.folder.name}/{report.REPORT_FILE}"


def _in_order(path: pathlib.Path) -> list:
  """Sorts by name, table2 before table10."""
  parts = re.split(r"(\d+)", path.name)
  return [int(part) if part.isdigit() else part for part in parts]
