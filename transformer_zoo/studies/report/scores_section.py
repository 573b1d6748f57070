"""Sections of the report about scores: tables and charts."""

from collections.abc import Collection, Mapping, Sequence

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import charts
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.comparison import Difference
from transformer_zoo.studies.statistics.conclusions import Judged
from transformer_zoo.studies.statistics.conclusions import Verdict
from transformer_zoo.studies.statistics.inference import Estimate
from transformer_zoo.studies.statistics.power import MARK
from transformer_zoo.studies.statistics.power import POINTS
from transformer_zoo.studies.statistics.power import Power
from transformer_zoo.studies.statistics.ranking import Agreement
from transformer_zoo.studies.statistics.scores import Cell
from transformer_zoo.studies.statistics.scores import decimals
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.studies.statistics.scores import TaskMetric
from transformer_zoo.studies.statistics.wording import number
from transformer_zoo.studies.statistics.wording import signed


def main(analysis: Analysis) -> dict[str, object]:
  """Returns the table of the study as the paper prints it, and its seeds."""
  study, table = analysis.study, analysis.table
  if not any(
    table.cells[row, column].values
    for row in table.rows
    for column in table.columns
  ):
    return {"table": None}
  drawn = [charts.seeds(table, column) for column in table.columns]
  return {
    "table": scores(analysis, analysis.comparison.differences),
    "legend": cells.legend(study, "In small", analysis.blind),
    "charts": [chart for chart in drawn if chart],
  }


def scores(
  analysis: Analysis,
  differences: Mapping[tuple[str, str], Difference] | None = None,
  *,
  marked: bool = True,
) -> tables.Table:
  """Returns the scores of all rows.

  Args:
    analysis: The analysis of the study.
    differences: Differences by row and column, as a second view of each cell.
    marked: Whether the heads of columns that see little are marked.
  """
  study = analysis.study
  groups = {column.name: column.of_group for column in study.columns}
  blind = analysis.blind if marked else ()
  return grid(study, analysis.table, {"": groups}, differences, blind)


def conclusions(analysis: Analysis) -> dict[str, object]:
  """Returns the differences that are more than chance explains."""
  lines = [
    _conclusion(analysis.table, one)
    for one in analysis.comparison.differences.values()
    if one.concluded
  ]
  head = ["row", "column", "difference", "95 %\ninterval", "p", "corrected"]
  found = {
    "summary": analysis.summary,
    "power": analysis.power,
    "powers": _powers(analysis.powers),
    "table": tables.Table(head=head, lines=lines, kind="numbers sortable")
    if lines
    else None,
    "concluded": analysis.concluded,
    "open": analysis.open,
    "notes": analysis.comparison.notes,
  }
  return found if any(found.values()) else {}


def beside_published(analysis: Analysis) -> dict[str, object]:
  """Returns our scores over the published ones, and the order of the rows."""
  table = analysis.table
  drawn = [charts.against_published(table, column) for column in table.columns]
  if not any(drawn):
    return {}
  return {
    "sentences": analysis.beside_published,
    "conclusions": _judged(analysis.judged),
    "table": _ranks(analysis.agreements),
    "in_words": [
      *analysis.verdicts,
      *(one.sentence for one in analysis.agreements.values()),
    ],
    "charts": [chart for chart in drawn if chart],
  }


def over_trained(analysis: Analysis) -> list[str]:
  """Returns charts of scores over trained parameters, if they are a part."""
  if not budgets.trains_parts(analysis.budgets):
    return []
  trained = {row: budget.trained for row, budget in analysis.budgets.items()}
  table = analysis.table
  drawn = [
    charts.over_costs(table, column, "trained parameters", trained)
    for column in table.columns
  ]
  return [chart for chart in drawn if chart]


def sensitivity(study: StudyResults, table: Table) -> dict[str, object]:
  """Returns scores over the number in which labels of rows differ."""
  drawn = {
    name: [
      chart
      for column in table.columns
      if (chart := charts.sensitivity(table, column, name, values))
    ]
    for name, values in charts.sensitivities(table).items()
  }
  figures = [of_number for of_number in drawn.values() if of_number]
  if not figures:
    return {}
  return {"figures": figures, "published": bool(study.published)}


def over_columns(table: Table) -> list[str]:
  """Returns charts over the number in which names of columns differ.

  Such as the number of demonstrations, or the length of inputs.
  """
  drawn = [
    charts.over_columns(table, name, values)
    for name, values in charts.numbered_columns(table).items()
  ]
  return [chart for chart in drawn if chart]


def over_costs(analysis: Analysis) -> list[str]:
  """Returns charts of scores over FLOPs of pre-training and seconds of a step.

  There are some if a row has twice as many of these FLOPs as another.
  """
  budgets = {
    row: budget
    for row, budget in analysis.budgets.items()
    if budget.pretraining_flops
  }
  flops = {row: budget.pretraining_flops for row, budget in budgets.items()}
  if not flops or max(flops.values()) < 2 * min(flops.values()):
    return []
  seconds = {
    row: float(f"{budget.seconds / budget.steps:.3g}")
    for row, budget in budgets.items()
    if budget.seconds and budget.steps
  }
  drawn = [
    charts.over_costs(analysis.table, column, name, costs)
    for name, costs in (
      ("FLOPs of pre-training", flops),
      ("seconds of a step", seconds),
    )
    for column in analysis.table.columns
    if costs
  ]
  return [chart for chart in drawn if chart]


def tasks(study: StudyResults, table: Table) -> tables.Table | None:
  """Returns every metric of every task, as in T5's table 16."""
  columns = {}
  for column in study.columns:
    columns.setdefault(column.of_group, []).append(column.name)
  groups = {
    group: dict.fromkeys([*columns.get(group, ()), *metrics], group)
    for group, metrics in table.metrics.items()
  }
  return grid(study, table, groups) if groups else None


def _conclusion(table: Table, one: Difference) -> list[str | tables.Cell]:
  estimate, p_value = one.estimate, one.corrected_p_value
  decimals = table.cells[one.row, one.column].decimals
  return [
    table.labels[one.row],
    one.column,
    tables.Cell(
      text=signed(estimate.difference, decimals), order=estimate.difference
    ),
    tables.Cell(text=_interval(estimate, decimals), order=estimate.low),
    tables.Cell(text=_p_value(estimate.p_value), order=estimate.p_value),
    tables.Cell(text=_p_value(p_value), order=p_value),
  ]


def _powers(powers: Sequence[Power]) -> tables.Table | None:
  lines = [
    [
      one.column,
      tables.Cell(
        text="unknown"
        if one.deviation is None
        else number(one.deviation, decimals(one.is_loss)),
        order=one.deviation,
      ),
      tables.Cell(
        text="unknown" if one.rounding is None else f"{one.rounding:.1f}",
        order=one.rounding,
      ),
      tables.Cell(text=one.text, order=one.smallest),
      tables.Cell(
        text=f"no {MARK}" if one.is_blind else "—" * one.is_loss or "yes"
      ),
    ]
    for one in powers
  ]
  head = ["column", "deviation\nover seeds", "deviation by\nrounding"]
  head.append("smallest\ndifference")
  head.append(f"detects\n{POINTS:.0f} points")
  return tables.Table(head=head, lines=lines, kind="numbers") if lines else None


def _judged(judged: Sequence[Judged]) -> tables.Table | None:
  lines = [
    [
      one.conclusion.claim,
      tables.Cell(text=one.verdict.value, bold=one.verdict is Verdict.REVERSED),
      tables.Cell(text=one.compared),
      tables.Cell(text=one.column),
      tables.Cell(text=one.conclusion.relation),
      tables.Cell(text=one.measured),
    ]
    for one in judged
  ]
  head = ["published conclusion", "verdict", "rows", "column", "published"]
  head.append("measured\n(95 % interval)")
  return tables.Table(head=head, lines=lines) if lines else None


def _ranks(agreements: Mapping[str, Agreement]) -> tables.Table | None:
  lines = []
  for column, agreement in agreements.items():
    found = agreement.ranking
    if found.tau is not None:
      interval = "—"
      if found.low is not None:
        interval = f"{signed(found.low)} to {signed(found.high)}"
      same = f"{found.num_same} of {found.num_pairs}"
      clear = f"{found.num_clear_same} of {found.num_clear}"
      lines.append(
        [
          column,
          tables.Cell(text=signed(found.tau), order=found.tau),
          tables.Cell(text=interval, order=found.low),
          tables.Cell(text=same, order=found.num_same),
          tables.Cell(text=clear, order=found.num_clear_same),
          tables.Cell(text=_p_value(found.p_value), order=found.p_value),
        ]
      )
  head = ["column", "Kendall’s\ntau", "95 % interval"]
  head += ["pairs in the\nsame order", "of those clear\nin print", "p"]
  if not lines:
    return None
  return tables.Table(head=head, lines=lines, kind="numbers sortable")


def grid(
  study: StudyResults,
  table: Table,
  groups: Mapping[str, Mapping[str | TaskMetric, str]],
  differences: Mapping[tuple[str, str], Difference] | None = None,
  blind: Collection[str] = (),
) -> tables.Table:
  """Rows by columns, every number a link to the runs that it comes from.

  Args:
    study: The results of the study's runs.
    table: The numbers of the study.
    groups: The columns and the group whose runs score them, by the title above
      the columns.
    differences: Differences by row and column, as a second view of each cell.
    blind: The columns whose heads are marked.
  """
  columns = {c: group for part in groups.values() for c, group in part.items()}
  others = {c.name for c in study.columns if cells.of_other_tasks(c)}
  seeds = len(study.seeds)
  lines = []
  for row in table.rows:
    line = [cells.label(study, row)]
    for column, group in columns.items():
      cell = table.cells[row, column]
      href = f"#{page.anchor('source', row, group)}"
      shown = _score(cell, seeds, href, beside=column not in others)
      if differences is not None:
        other = _difference(cell, differences.get((row, column)), seeds, href)
        shown = tables.Cell(text="", order=cell.mean, views=(shown, other))
      line.append(shown)
    lines.append(line)
  head, spans = cells.head, []
  if set(groups) != {""}:
    head = _short
    spans = [("", 1), *((title, len(part)) for title, part in groups.items())]
  return tables.Table(
    head=["row", *(head(column, blind) for column in columns)],
    lines=lines,
    kind="numbers sortable",
    marked=table.rows.index(table.baseline),
    spans=spans,
  )


def differences(analysis: Analysis) -> tables.Table:
  """Returns differences of all rows from the baseline, without statistics."""
  study, table = analysis.study, analysis.table
  return tables.Table(
    head=["row", *(cells.head(c, analysis.blind) for c in table.columns)],
    lines=[
      [
        cells.label(study, row),
        *(
          _difference(table.cells[row, column], None, len(study.seeds))
          for column in table.columns
        ),
      ]
      for row in table.others
    ],
  )


def _score(cell: Cell, seeds: int, href: str, *, beside: bool) -> tables.Cell:
  """The score, with the published one beside it, which is of the same tasks."""
  printed = ""
  if beside and cell.published is not None:
    printed = number(cell.published, cell.decimals)
  if cell.mean is None:
    return tables.Cell(published=printed)
  deviation = ""
  if cell.deviation is not None:
    deviation = number(cell.deviation, cell.decimals)
  return tables.Cell(
    text=number(cell.mean, cell.decimals),
    order=cell.mean,
    href=href,
    kind="number",
    bold=cell.bold,
    deviation=deviation,
    small=[*_quartiles(cell), *_fewer(cell, seeds)],
    published=printed,
  )


def _difference(
  cell: Cell, found: Difference | None, seeds: int, href: str = ""
) -> tables.Cell:
  if cell.difference is None:
    return tables.Cell()
  small = _fewer(cell, seeds)
  estimate = found and found.estimate
  if estimate is not None and estimate.low is not None:
    small = [_interval(estimate, cell.decimals), *small]
  concluded = found is not None and found.concluded
  printed = ""
  if cell.published_difference is not None:
    printed = signed(cell.published_difference, cell.decimals)
  return tables.Cell(
    text=signed(cell.difference, cell.decimals) + "*" * concluded,
    href=href,
    kind="number",
    bold=concluded,
    small=small,
    published=printed,
  )


def _interval(estimate: Estimate, decimals: int) -> str:
  ends = (estimate.low, estimate.high)
  return " to ".join(signed(end, decimals) for end in ends)


def _p_value(value: float) -> str:
  return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _quartiles(cell: Cell) -> list[str]:
  if cell.quartiles is None:
    return []
  low, high = (number(value, cell.decimals) for value in cell.quartiles)
  return [f"quartiles {low} to {high}"]


def _fewer(cell: Cell, seeds: int) -> list[str]:
  known = len(cell.values)
  return [f"{known} of {seeds} seeds"] if known < seeds else []


def _short(column: str | TaskMetric, blind: Collection[str]) -> str:
  """A metric goes under its task, whose group stands above."""
  if isinstance(column, str):
    return cells.head(column, blind)
  return column.name.replace(": ", ":\n")
