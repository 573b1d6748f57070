"""The index of several studies: a line for each, and a brief section.

A study that stands on several suites is also drawn as a ladder: its agreement
with the publication over training FLOPs.
"""

from collections.abc import Iterable, Iterator, Sequence
import os
import pathlib
import re

from transformer_zoo.errors import UserError
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import charts
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import report
from transformer_zoo.studies.report import summary
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.statistics import conclusions
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.findings import Verdict
from transformer_zoo.studies.statistics.ladder import Ladder
from transformer_zoo.studies.statistics.ladder import ladders
from transformer_zoo.studies.statistics.wording import compact
from transformer_zoo.studies.statistics.wording import signed
from transformer_zoo.training.monitoring.progress import duration

MARKDOWN_FILE = "index.md"
_TITLE = "Results"
_HEAD = (
  *("study", "more than\nchance", "as\npublished", "against\nit"),
  *(
    "conclusions\nhold",
    "Kendall’s\ntau",
    "state",
    "rows",
    "seeds",
    "computing",
  ),
)
_NOTES = (
  "More than chance: differences from the baseline that are, of all, corrected "
  "for all comparisons of the study.",
  "As published, against it: of the differences that are clear in the "
  "publication, those that are found here too, and those that are reversed.",
  "Conclusions: what the text of the publication concludes of the table; those "
  "that hold here, and after a comma those that are reversed.",
  "Kendall’s tau: whether rows stand in the published order, the mean over "
  "columns with its 95 % interval; of studies with three published rows or "
  "more.",
  "Computing: of all runs of a study, those that it shares with others too.",
)

_LADDER = "Agreement over training FLOPs"
_LADDER_HEAD = (
  *("study", "suite", "seeds", "training\nFLOPs"),
  *("Kendall’s\ntau", "95 % interval", "pairs in the\npublished order"),
)
_LADDER_NOTE = (
  "Kendall’s tau with the published order, the mean over columns with its 95 % "
  "interval, over the FLOPs of the baseline with one seed, pre-training and "
  "fine-tuning of all groups together; of the pairs of rows that "
  "clearly differ in the publication, those in its order."
)


def folders(folder: str | os.PathLike[str]) -> list[pathlib.Path]:
  """Returns the folders of the studies that lie in a folder, in their order.

  Raises:
    UserError: The folder holds no study.
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
  return sorted(found, key=lambda path: in_order(path.name))


def check_versions(studies: Iterable[StudyResults]) -> None:
  """Checks that studies on a suite ran on one version of it.

  Raises:
    UserError: If two of them ran on different versions of a suite.
  """
  first = {}
  for study in studies:
    other = first.setdefault(study.suite, study)
    if other.suite_version != study.suite_version:
      raise UserError(
        f"{other.folder} is of version {other.suite_version} of suite "
        f"{study.suite!r} and {study.folder} of version {study.suite_version}, "
        "which are never compared; run the older one again, or keep it in "
        "another folder"
      )


def to_markdown(analyses: Sequence[Analysis]) -> str:
  """Returns the table of the studies and a brief section of each."""
  lines = []
  for one in analyses:
    name, *others = _line(one)
    place = re.sub(r"[^\w\- ]", "", summary.title(one.study).lower())
    link = f"[{name}](#{place.replace(' ', '-')})"
    lines.append([link, *others])
  return markdown.joined(
    [
      f"# {_TITLE}",
      _facts(analyses),
      tables.to_markdown(tables.Table(head=_HEAD, lines=lines)),
      markdown.listed(_NOTES),
      *_ladder_section(ladders(analyses)),
      *(summary.to_markdown(one).rstrip() for one in analyses),
    ]
  )


def to_html(analyses: Sequence[Analysis]) -> str:
  """Returns the index as a page, with links to the pages of the studies."""
  lines = []
  for one in analyses:
    name, *others = _line(one)
    lines.append([tables.Cell(text=name, href=_address(one.study)), *others])
  return page.render(
    "index.html",
    title=_TITLE,
    facts=_facts(analyses),
    studies=tables.Table(head=_HEAD, lines=lines, kind="numbers sortable"),
    notes=_NOTES,
    ladder=_ladder_values(ladders(analyses)),
    sections=[
      {
        "title": summary.title(one.study),
        "question": one.study.question,
        "href": _address(one.study),
        "sentences": [*summary.sentences(one), *one.verdicts],
        "broken": [run.sentence for run in one.study.broken()],
        "cost": summary.cost(one.study),
        "command": one.study.command,
      }
      for one in analyses
    ],
  )


def write(
  folder: str | os.PathLike[str], analyses: Sequence[Analysis]
) -> pathlib.Path:
  """Writes `index.html` and `index.md` above the studies.

  Each ladder is a file of its own too, `ladder-<study>.svg`.

  Returns:
    The path of the page.
  """
  path = pathlib.Path(folder) / report.INDEX_FILE
  path.write_text(to_html(analyses), encoding="utf-8")
  path.with_name(MARKDOWN_FILE).write_text(
    to_markdown(analyses), encoding="utf-8"
  )
  for one in ladders(analyses):
    drawn = charts.alone(charts.ladder(one))
    path.with_name(_ladder_file(one)).write_text(drawn, encoding="utf-8")
  return path


def _ladder_file(one: Ladder) -> str:
  return f"ladder-{one.study}.svg"


def _ladder_section(found: Sequence[Ladder]) -> list[str]:
  """The ladders as Markdown, empty without any."""
  if not found:
    return []
  table = tables.Table(head=_LADDER_HEAD, lines=[*_ladder_lines(found)])
  pictures = " ".join(f"![{one.study}]({_ladder_file(one)})" for one in found)
  return [f"## {_LADDER}", tables.to_markdown(table), _LADDER_NOTE, pictures]


def _ladder_values(found: Sequence[Ladder]) -> dict[str, object]:
  """Returns the values of the page's ladders, empty without any."""
  if not found:
    return {}
  return {
    "title": _LADDER,
    "table": tables.Table(
      head=_LADDER_HEAD, lines=list(_ladder_lines(found)), kind="numbers"
    ),
    "charts": [charts.ladder(one) for one in found],
    "note": _LADDER_NOTE,
  }


def _ladder_lines(found: Sequence[Ladder]) -> Iterator[list[str | tables.Cell]]:
  for one in found:
    for rung in one.rungs:
      tau, ends = rung.tau, "—"
      if tau.low is not None:
        ends = f"{signed(tau.low)} to {signed(tau.high)}"
      yield [
        one.study,
        tables.Cell(text=rung.suite),
        tables.Cell(text=str(rung.seeds)),
        tables.Cell(text=compact(rung.flops), order=rung.flops),
        tables.Cell(text=signed(tau.tau), order=tau.tau),
        tables.Cell(text=ends, order=tau.low),
        tables.Cell(text=f"{tau.num_clear_same} of {tau.num_clear}"),
      ]


def _line(one: Analysis) -> list[str | tables.Cell]:
  """The line of a study in the table, its name first."""
  study, tau = one.study, one.tau
  compared = one.comparison.num_comparisons
  in_print = compared and len(one.findings) - one.count(Verdict.NEW)
  order = "—"
  if tau is not None:
    order = signed(tau.tau)
    if tau.low is not None:
      order += f" ({signed(tau.low)} to {signed(tau.high)})"
  return [
    summary.title(study),
    _share(len(one.concluded), compared),
    _share(one.count(Verdict.SAME), in_print),
    _share(one.count(Verdict.OPPOSITE), in_print),
    _verdicts(one),
    tables.Cell(text=order, order=tau and tau.tau),
    tables.Cell(text=_state(study)),
    tables.Cell(text=str(len(study.rows)), order=len(study.rows)),
    tables.Cell(text=str(len(study.seeds)), order=len(study.seeds)),
    tables.Cell(text=duration(study.seconds), order=study.seconds),
  ]


def _verdicts(one: Analysis) -> tables.Cell:
  verdicts = [judged.verdict for judged in one.judged]
  holds = verdicts.count(conclusions.Verdict.HOLDS)
  cell = _share(holds, len(verdicts))
  opposite = verdicts.count(conclusions.Verdict.REVERSED)
  if not opposite:
    return cell
  return tables.Cell(text=f"{cell.text}, {opposite} reversed", order=holds)


def _share(number: int, whole: int) -> tables.Cell:
  if not whole:
    return tables.Cell()
  return tables.Cell(text=f"{number} of {whole}", order=number)


def _state(study: StudyResults) -> str:
  """`finished`, or the numbers of finished and of failed runs."""
  states = [run.state for run in study.runs if not run.shared]
  done, failed = map(states.count, (run_progress.FINISHED, run_progress.FAILED))
  if done == len(states):
    return run_progress.FINISHED
  text = f"{done} of {len(states)} runs"
  return f"{text}, {failed} failed" if failed else text


def _facts(analyses) -> str:
  """The number of studies and of runs, and the time that all of them took."""
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


def in_order(name: str) -> list:
  """Returns what names are sorted by, table2 before table10."""
  parts = re.split(r"(\d+)", name)
  return [int(part) if part.isdigit() else part for part in parts]
