"""Sections of the report that show scores: tables and plots."""

from collections.abc import Iterator, Mapping

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import plots
from transformer_zoo.studies.statistics import Agreement
from transformer_zoo.studies.statistics import Difference
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.inference import Estimate
from transformer_zoo.studies.statistics.scores import Cell
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.studies.statistics.task_metrics import TaskMetric

_FILES = (
  *("table.csv", "table.md", "table.tex"),
  *("differences.csv", "agreement.csv"),
)


def main(analysis: Analysis) -> Iterator[str]:
  """The table of the study as the paper prints it, and a plot of its seeds."""
  study, table = analysis.study, analysis.table
  of_columns = [table.cells[r, c] for r in table.rows for c in table.columns]
  if not any(cell.values for cell in of_columns):
    yield "<p>No run is finished yet.</p>"
    return
  groups = {column.name: column.of_group for column in study.columns}
  grid = _grid(study, table, {"": groups}, analysis.comparison.differences)
  note = (
    '<p class="note view view-1">In small: the 95 % interval of the '
    "difference, and the published difference. *: more than chance explains, "
    "corrected for all comparisons.</p>"
  )
  choice = ("scores", "differences from the baseline")
  yield page.views("scores", choice, grid, note)
  for line in cells.legend(study, "In small"):
    yield f'<p class="note">{page.text(line)}</p>'
  links = ", ".join(page.link(name, name) for name in _FILES)
  yield f'<p class="note">All digits and every seed: {links}.</p>'
  yield legend(study)
  yield page.panels(
    (plots.seeds(table, column) for column in table.columns),
    "A dot for each seed, a bar at their mean; the shade is two standard "
    "deviations of the baseline to either side of it.",
  )


def conclusions(analysis: Analysis) -> Iterator[str]:
  """Which differences are more than chance explains, and which are not."""
  if analysis.summary:
    yield f"<p>{page.text(analysis.summary)}</p>"
  if analysis.concluded:
    head = ["row", "column", "difference", "95 %\ninterval", "p"]
    lines = [
      _conclusion(analysis.table, one)
      for one in analysis.comparison.differences.values()
      if one.concluded
    ]
    yield page.table([*head, "corrected"], lines, kind="numbers sortable")
    yield page.details("In words", page.sentences(analysis.concluded))
  if analysis.open:
    number = len(analysis.open)
    title = f"What cannot be concluded: {number} comparison{'s' * (number > 1)}"
    yield page.details(title, page.sentences(analysis.open))
  if analysis.comparison.notes:
    notes = page.sentences(analysis.comparison.notes)
    yield page.details("What these numbers are", notes)


def _conclusion(table: Table, one: Difference) -> list[str | page.Cell]:
  estimate, p_value = one.estimate, one.corrected_p_value
  decimals = table.cells[one.row, one.column].decimals
  return [
    page.text(table.labels[one.row]),
    page.text(one.column),
    page.Cell(cells.signed(estimate.difference, decimals), estimate.difference),
    page.Cell(_interval(estimate, decimals), estimate.low),
    page.Cell(_p_value(estimate.p_value), estimate.p_value),
    page.Cell(_p_value(p_value), p_value),
  ]


def _interval(estimate: Estimate, decimals: int) -> str:
  ends = (estimate.low, estimate.high)
  return " to ".join(cells.signed(end, decimals) for end in ends)


def beside_published(analysis: Analysis) -> Iterator[str]:
  """Our scores over the published ones, and whether they rank rows alike."""
  study, table = analysis.study, analysis.table
  drawn = [plots.against_published(table, column) for column in table.columns]
  if not any(drawn):
    return
  yield page.sentences(analysis.beside_published)
  yield _ranks(analysis.agreements)
  yield page.details(
    "In words",
    page.sentences([one.sentence for one in analysis.agreements.values()]),
  )
  yield legend(study)
  yield page.panels(
    drawn,
    "Ours, with a standard deviation to either side, over the published. The "
    "lines cross at the baseline: what lies upper right or lower left of it "
    "differs from it in the published direction.",
  )


def _ranks(agreements: Mapping[str, Agreement]) -> str:
  lines = []
  for column, agreement in agreements.items():
    found = agreement.ranking
    if found.tau is not None:
      interval = "—"
      if found.low is not None:
        interval = f"{cells.signed(found.low)} to {cells.signed(found.high)}"
      lines.append(
        [
          page.text(column),
          page.Cell(cells.signed(found.tau), found.tau),
          page.Cell(interval, found.low),
          page.Cell(f"{found.num_same} of {found.num_pairs}", found.num_same),
          page.Cell(
            f"{found.num_clear_same} of {found.num_clear}", found.num_clear_same
          ),
          page.Cell(_p_value(found.p_value), found.p_value),
        ]
      )
  head = [
    "column",
    "Kendall’s\ntau",
    "95 % interval",
    "pairs in the\nsame order",
  ]
  head += ["of those clear\nin print", "p"]
  return page.table(head, lines, kind="numbers sortable") if lines else ""


def _p_value(value: float) -> str:
  return "&lt; 0.001" if value < 0.001 else f"{value:.3f}"


def sensitivity(study: StudyResults, table: Table) -> Iterator[str]:
  """Scores over the number in which labels of rows differ, if they have one."""
  for name, values in plots.sensitivities(table).items():
    drawn = [
      plots.sensitivity(table, column, name, values) for column in table.columns
    ]
    yield page.panels(
      drawn,
      "Differences from the baseline: ours (line, with a standard deviation to "
      "either side)"
      + (" and the published (dashed)." if study.published else "."),
    )


def tasks(study: StudyResults, table: Table) -> Iterator[str]:
  """Every metric of every task, as in T5's table 16."""
  columns = {}
  for column in study.columns:
    columns.setdefault(column.of_group, []).append(column.name)
  groups = {
    group: dict.fromkeys([*columns.get(group, ()), *metrics], group)
    for group, metrics in table.metrics.items()
  }
  if groups:
    yield _grid(study, table, groups)


def legend(study: StudyResults) -> str:
  """Which colour is which row."""
  return page.legend([info.label for info in study.rows.values()])


def _grid(study, table, groups, differences=None) -> str:
  """Rows by columns, every number a link to where it comes from.

  Args:
    study: the study.
    table: its numbers.
    groups: by title, the columns under it with the group that scores them.
    differences: by row and column, to be there too for who chooses them.
  """
  columns = {c: group for of in groups.values() for c, group in of.items()}
  lines = []
  for row in table.rows:
    line = [page.text(cells.label(study, row))]
    for column, group in columns.items():
      cell = table.cells[row, column]
      target = f"#{page.anchor('source', row, group)}"
      html = _score(cell, len(study.seeds), target)
      if differences is not None:
        found = differences.get((row, column))
        other = _difference(cell, found, len(study.seeds), target)
        html = f'<div class="view view-0">{html}</div>'
        html += f'<div class="view view-1">{other}</div>'
      line.append(page.Cell(html, cell.mean))
    lines.append(line)
  spans = []
  if set(groups) != {""}:
    spans = [("", 1), *((title, len(of)) for title, of in groups.items())]
  return page.table(
    ["row", *(_short(column) for column in columns)],
    lines,
    kind="numbers sortable",
    marked=[table.rows.index(table.baseline)],
    spans=spans,
  )


def _score(cell: Cell, seeds: int, target: str) -> str:
  if cell.mean is None:
    return "—" + _published(cell, cell.published, cells.number)
  text = cells.number(cell.mean, cell.decimals)
  text = page.link(target, f"<b>{text}</b>" if cell.bold else text, "number")
  if cell.deviation is not None:
    deviation = cells.number(cell.deviation, cell.decimals)
    text += f' <span class="deviation">± {deviation}</span>'
  text += _fewer(cell, seeds)
  return text + _published(cell, cell.published, cells.number)


def _difference(
  cell: Cell, found: Difference | None, seeds: int, target: str
) -> str:
  if cell.difference is None or found is None:
    return "—"
  text = cells.signed(cell.difference, cell.decimals)
  if found.concluded:
    text = f"<b>{text}*</b>"
  text = page.link(target, text, "number")
  estimate = found.estimate
  if estimate is not None and estimate.low is not None:
    text += f"<small>{_interval(estimate, cell.decimals)}</small>"
  text += _fewer(cell, seeds)
  return text + _published(cell, cell.published_difference, cells.signed)


def _fewer(cell, seeds) -> str:
  known = len(cell.values)
  return f"<small>{known} of {seeds} seeds</small>" if known < seeds else ""


def _published(cell: Cell, value: float | None, written) -> str:
  if value is None:
    return ""
  text = written(value, cell.decimals)
  return f'<small><span class="paper">paper </span>{text}</small>'


def _short(column: str | TaskMetric) -> str:
  """A metric goes under its task, whose group stands above."""
  return getattr(column, "name", column).replace(": ", ":\n")
