"""Results as pages of a site: `zoo report --publish FOLDER`.

`<study>.md` and `index.md` follow from the `<study>.json` of a folder alone
(`page_files.py`), also those of studies whose runs are gone. Written by hand in
it, and left as they are: `text`, the lines that stand below a table, and
`notes`, sentences on reversed conclusions by their claims.
A section of an older version of a suite moves to the end of `archive.md`.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import datetime
import functools
import os
import pathlib
import re
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.studies import published
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import environments
from transformer_zoo.studies.report import figures
from transformer_zoo.studies.report import index
from transformer_zoo.studies.report import learning_curves
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import page_files
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.report import summary
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.report.page_files import Page
from transformer_zoo.studies.report.page_files import Section
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.conclusions import Judged
from transformer_zoo.studies.statistics.conclusions import Verdict
from transformer_zoo.studies.statistics.wording import compact

INDEX_FILE = "index.md"
ARCHIVE_FILE = "archive.md"
_IMAGES = "images"
BUDGETS_FIGURE = f"{_IMAGES}/over_budgets.svg"

_REVERSED = Verdict.REVERSED.value
_VERDICTS = tuple(verdict.value for verdict in Verdict)
_HEAD = ("study", "question", "suite", "seeds", *_VERDICTS, "core hours")

_INTRODUCTION = (
  "Each study trains Transformers that differ in one thing at a time, from the "
  "same data and with the same seeds, and asks what a paper asked with them. "
  "Its page has the table with deviations over seeds, the published figures "
  "beside it, what can be concluded, what it cost and the command that makes "
  "it.",
  "Budgets are small and tasks are others than the published ones, so levels "
  "do not compare with print, and directions do. What a paper concludes of its "
  "table is compared as data: a conclusion *holds* if the 95 % interval of "
  "our own difference lies where the paper says, is *reversed* if it lies on "
  "the other side, and *cannot be told* if it includes both, or with one seed.",
)


def publish(
  folder: str | os.PathLike[str], analyses: Sequence[Analysis]
) -> pathlib.Path:
  """Writes the pages and the index of a folder of results.

  Args:
    folder: The folder of the pages.
    analyses: Studies that are added to it, each in place of earlier results on
      its suite.

  Returns:
    The path of the index.

  Raises:
    UserError: The folder has a study on a later version of its suite, or a
      damaged file.
  """
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  for one in analyses:
    _add(folder, one)
  pages = page_files.read_all(folder)
  archived = (folder / ARCHIVE_FILE).exists()
  for name, text in texts(pages, archived=archived).items():
    (folder / name).write_text(text, encoding="utf-8")
  for page in pages:
    for section in page.sections:
      figures.draw(folder / figure(page, section), section.table)
      if section.curves:
        figures.draw_curves(
          folder / curves_figure(page, section), section.curves
        )
  if differences := over_budgets(pages):
    figures.draw_budgets(folder / BUDGETS_FIGURE, differences)
  return folder / INDEX_FILE


def texts(pages: Sequence[Page], *, archived: bool) -> dict[str, str]:
  """Returns the text of each page, and of the index, by the file's name.

  Args:
    pages: All studies of the folder.
    archived: Whether the folder has a page of older versions of suites.
  """
  found = {f"{page.study}.md": _page(page) for page in pages}
  return found | {INDEX_FILE: _index(pages, archived)}


def figure(page: Page, section: Section) -> str:
  """Returns the path of a figure below the folder of results."""
  return f"{_IMAGES}/{page.study}-{section.suite}.svg"


def curves_figure(page: Page, section: Section) -> str:
  """Returns the path of the figure of losses below the folder of results."""
  return f"{_IMAGES}/{page.study}-{section.suite}-curves.svg"


def _add(folder: pathlib.Path, analysis: Analysis) -> None:
  """Writes a study into its JSON, in place of earlier results on its suite."""
  study, new = analysis.study, _section(analysis)
  path, sections, notes = folder / f"{study.name}.json", [], {}
  if path.exists():
    page = page_files.read(path)
    sections, notes = list(page.sections), page.notes
  for old in [one for one in sections if one.suite == new.suite]:
    if old.version > new.version:
      raise UserError(
        f"{study.folder} is of version {new.version} of suite {new.suite!r}, "
        f"and {path} has version {old.version}; run the study again on that"
      )
    if old.version < new.version:
      _move(folder, page, old)
    else:
      new = dataclasses.replace(new, text=old.text)
    sections.remove(old)
  page = Page(
    study=study.name,
    question=study.question,
    published=study.published,
    notes=notes,
    sections=sorted([*sections, new], key=lambda s: index.in_order(s.suite)),
  )
  page_files.write(path, page)


def _move(folder: pathlib.Path, page: Page, old: Section) -> None:
  """Appends a section to the archive, without its figure."""
  path, text = folder / ARCHIVE_FILE, "# Older versions of suites\n"
  if path.exists():
    text = path.read_text(encoding="utf-8")
  title = f"## {page.study}, {old.title}"
  moved = markdown.joined([title, tables.plain(page.question), *_body(old)])
  path.write_text(f"{text}\n{moved}", encoding="utf-8")


def _section(analysis: Analysis) -> Section:
  study = analysis.study
  table = scores_section.scores(analysis)
  found = environments.read(study)
  baseline = analysis.budgets.get(study.baseline)
  return Section(
    suite=study.suite,
    version=study.suite_version,
    seeds=len(study.seeds),
    row_flops=baseline and baseline.flops or None,
    core_hours=round(sum(one.core_hours for one in found), 2) or None,
    head=table.head,
    lines=[[label, *map(_cell, line)] for label, *line in table.lines],
    legend=summary.legend(analysis),
    sentences=[*summary.sentences(analysis), *analysis.gaps],
    verdicts=[_judged(one) for one in analysis.judged],
    cost=_cost(study, found),
    # Where the data lies is a matter of one machine.
    command=re.sub(r"--data_dir=\S+", "--data_dir=DATA", study.command),
    curves=_curves(study),
  )


def _curves(study: StudyResults) -> dict[str, list[list[float]]]:
  """The mean losses of the first phase that has no groups, over FLOPs."""
  phases = dict.fromkeys(run.phase for run in study.runs if not run.group)
  if not phases:
    return {}
  found = learning_curves.read(study, next(iter(phases)), "")
  curves = {}
  for row, by_seed in found.get(learning_curves.LOSS, {}).items():
    known = [c for c in by_seed.values() if learning_curves.FLOPS in c.costs]
    if known:
      flops, losses = learning_curves.together(known, learning_curves.FLOPS)
      curves[study.rows[row].label] = [
        [float(f"{number:.4g}") for number in numbers]
        for numbers in (flops, losses.mean(0))
      ]
  return curves


def _cell(cell: tables.Cell) -> dict[str, Any]:
  names = ("text", "bold", "deviation", "small", "published")
  return {name: value for name in names if (value := getattr(cell, name))}


def _judged(one: Judged) -> dict[str, str]:
  return {
    "claim": one.conclusion.claim,
    "verdict": one.verdict.value,
    "comparison": one.comparison,
    "measured": one.measured,
  }


def _cost(study: StudyResults, found: list[environments.Environment]) -> str:
  """Runs, FLOPs, core hours, machines and days, in a sentence."""
  done = [
    run for run in study.runs if run.result is not None and not run.shared
  ]
  words = [study.progress()]
  if flops := sum(run.result.get("budget", {}).get("flops", 0) for run in done):
    words.append(f"{compact(flops)} FLOPs of training")
  words.append(f"{sum(one.core_hours for one in found):.2f} core hours")
  words += dict.fromkeys(one.brief for one in found)
  files = [run.folder / run_progress.RESULT_FILE for run in done]
  times = sorted(path.stat().st_mtime for path in files if path.exists())
  days = dict.fromkeys(map(_day, (*times[:1], *times[-1:])))
  return "; ".join([*words, " to ".join(days)]).removesuffix("; ") + "."


def _day(time: float) -> str:
  return datetime.datetime.fromtimestamp(time, datetime.UTC).date().isoformat()


def _page(page: Page) -> str:
  blocks = [f"# {page.study}", f"**Question.** {tables.plain(page.question)}"]
  for section in page.sections:
    words = f"Scores of each row of {page.study} on {section.suite}"
    drawn = f"![{words}, a panel for each column]({figure(page, section)})"
    if section.curves:
      words = "Loss of the first training of each row over its FLOPs"
      drawn += f"\n\n![{words}]({curves_figure(page, section)})"
    blocks += [f"## {section.title}", *_body(section, drawn, page.notes)]
  return markdown.joined(blocks)


def _body(
  section: Section, drawn: str = "", notes: Mapping[str, str] | None = None
) -> list[str]:
  """A section without its title."""
  judged = [
    [
      one["claim"],
      tables.Cell(text=one["verdict"], bold=one["verdict"] == _REVERSED),
      one["comparison"],
      one["measured"],
    ]
    for one in section.verdicts
  ]
  head = ["conclusion of the publication", "verdict", "comparison", "measured"]
  explained = [
    f"- {one['claim']}: {notes[one['claim']]}"
    for one in section.verdicts
    if one["verdict"] == _REVERSED and one["claim"] in (notes or {})
  ]
  return [
    tables.to_markdown(section.table),
    drawn,
    section.legend,
    "\n".join(section.text),
    markdown.listed(section.sentences),
    judged and tables.to_markdown(tables.Table(head=head, lines=judged)),
    "\n".join(explained),
    section.cost,
    f"    {section.command}",
  ]


def _index(pages: Sequence[Page], archived: bool) -> str:
  """The overview: every study and suite, and the verdicts of all."""
  expected = _expected()
  best = _best(pages, expected)
  counts = {v: list(best.values()).count(v) for v in _VERDICTS}
  keys = {page.published for page in pages}
  budgets = over_budgets(pages)
  missing = [name for (key, _), name in expected.items() if key not in keys]
  without = [f"`{k}` {missing.count(k)}" for k in dict.fromkeys(missing)]
  blocks = [
    "# Results",
    *_INTRODUCTION,
    budgets
    and "![Differences over the FLOPs of a row, a panel for each conclusion]"
    f"({BUDGETS_FIGURE})",
    budgets
    and "Above: what a paper concludes, over the FLOPs of a row; a dot is our "
    "difference in the published direction, its bar the 95 % interval.",
    f"Of {len(best)} conclusions that publications draw from their tables: "
    + ", ".join(f"*{v}* {counts[v]}" for v in _VERDICTS)
    + ".",
    tables.to_markdown(tables.Table(head=_HEAD, lines=_studies(pages))),
    "## Verdicts",
    tables.to_markdown(_by_suite(pages, counts)),
    "A conclusion that stands on several suites or in several studies counts "
    "once in the last line, with the verdict at the largest budget that tells.",
    budgets and "## Over budgets",
    budgets and tables.to_markdown(budgets),
    *_reversed(pages),
    without and "## Not run",
    without
    and "Studies that have no page here, with the number of conclusions of "
    f"their publications: {', '.join(without)}.",
    archived and f"Older versions of suites: [archive]({ARCHIVE_FILE}).",
    "\n".join(
      [
        *("```{toctree}", ":hidden:", ""),
        *(page.study for page in pages),
        *(["archive"] if archived else []),
        "```",
      ]
    ),
  ]
  return markdown.joined(blocks)


@functools.cache
def _expected() -> dict[tuple[str, str], str]:
  """The conclusions that shipped studies can judge: table and claim, study."""
  found = {}
  for name in loading.study_names():
    study = loading.load_study(name)
    labels = {row.published for row in study.rows}
    every = (
      published.load(study.published).conclusions if study.published else ()
    )
    for one in every:
      if {*one.rows, *one.than} <= labels:
        found.setdefault((study.published, one.claim), name)
  return found


def _best(pages, expected) -> dict[tuple[str, str], str]:
  """The verdict on each conclusion at the largest budget that tells."""
  found = dict.fromkeys(expected, Verdict.NOT_RUN.value)
  every = [(one, page.published) for page in pages for one in page.sections]
  for section, key in sorted(every, key=lambda entry: entry[0].budget):
    for one in section.verdicts:
      place, verdict = (key, one["claim"]), one["verdict"]
      before = found.get(place, Verdict.NOT_RUN.value)
      # The first two of the verdicts tell as much as one another.
      if _VERDICTS.index(verdict) <= max(1, _VERDICTS.index(before)):
        found[place] = verdict
  return found


def _studies(pages: Sequence[Page]) -> list[list[str]]:
  return [
    [
      f"[{page.study}]({page.study}.md)",
      page.question if section is page.sections[0] else "",
      section.title,
      str(section.seeds),
      *(str(section.count(v) or "") for v in _VERDICTS),
      f"{section.core_hours:.1f}" if section.core_hours else "",
    ]
    for page in pages
    for section in page.sections
  ]


def _by_suite(pages: Sequence[Page], counts: Mapping[str, int]) -> tables.Table:
  by_suite = {}
  for page in pages:
    for section in page.sections:
      by_suite.setdefault(section.title, []).append(section)
  lines = [
    [
      suite,
      str(len(found)),
      *(str(sum(one.count(v) for one in found)) for v in _VERDICTS),
    ]
    for suite, found in sorted(by_suite.items())
  ]
  lines.append(["all", str(len(pages)), *map(str, counts.values())])
  return tables.Table(head=["suite", "studies", *_VERDICTS], lines=lines)


def over_budgets(pages: Sequence[Page]) -> tables.Table | None:
  """Returns the differences of studies on suites whose FLOPs are counted.

  None without a study on two of them.
  """
  lines = []
  for page in pages:
    rungs = [one for one in page.sections if one.row_flops and one.verdicts]
    if len(rungs) < 2:
      continue
    found = [
      (one["claim"], rung.row_flops, rung, one)
      for rung in rungs
      for one in rung.verdicts
    ]
    for claim, flops, rung, one in sorted(found, key=lambda entry: entry[:2]):
      cost = tables.Cell(text=compact(flops), order=flops)
      line = [page.study, claim, rung.title, cost, str(rung.seeds)]
      lines.append([*line, one["verdict"], one["measured"]])
  if not lines:
    return None
  head = ["study", "conclusion", "suite", "FLOPs of a row", "seeds"]
  return tables.Table(head=[*head, "verdict", "measured"], lines=lines)


def _reversed(pages: Sequence[Page]) -> list[str]:
  lines = [
    f"- [{page.study}]({page.study}.md), {section.title}: {one['claim']}: "
    f"{one['measured']}. {page.notes.get(one['claim'], '')}".rstrip()
    for page in pages
    for section in page.sections
    for one in section.verdicts
    if one["verdict"] == _REVERSED
  ]
  return ["## Reversed", "\n".join(lines)] if lines else []
