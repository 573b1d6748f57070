"""The section of the report that shows what rows cost."""

from collections.abc import Iterator, Mapping

from transformer_zoo.studies import published
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report.chart import compact
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.budgets import Budget
from transformer_zoo.training.monitoring.progress import duration


def section(study: StudyResults, found: Mapping[str, Budget]) -> Iterator[str]:
  """What each row costs, and whether rows cost the same."""
  if not found:
    return
  yield page.sentences(budgets.sentences(study, found))
  phases = dict.fromkeys(p for budget in found.values() for p in budget.phases)
  names = [*(n.replace(" ", "\n") for n in budgets.QUANTITIES), "time"]
  in_print = _details(study)
  shown = list(dict.fromkeys(name for of in in_print.values() for name in of))
  base = found.get(study.baseline)
  yield page.table(
    ["row", *names, *["steps", "tokens", "FLOPs"] * len(phases), *shown],
    [
      [
        *_costs_of_row(study, row, budget, base, phases),
        *(page.text(in_print.get(row, {}).get(name, "—")) for name in shown),
      ]
      for row, budget in found.items()
    ],
    kind="numbers sortable",
    marked=[i for i, row in enumerate(found) if row == study.baseline],
    spans=[
      ("", 1),
      ("one seed", len(names)),
      *((phase, 3) for phase in phases),
      *([("published", len(shown))] if shown else []),
    ],
  )
  yield f'<p class="note">{page.text(budgets.NOTE)}</p>'


def _costs_of_row(study, row, budget, base, phases) -> list[str | page.Cell]:
  line = [page.text(cells.label(study, row))]
  for of in budgets.QUANTITIES.values():
    line.append(_share(of(budget), base and of(base)))
  line.append(page.Cell(duration(budget.seconds), budget.seconds))
  for phase in phases:
    cost = budget.phases.get(phase)
    if cost is None:
      line += [page.Cell("—")] * 3
    else:
      line.append(page.Cell(f"{cost.steps:,.0f}", cost.steps))
      line += [page.Cell(compact(n), n) for n in (cost.tokens, cost.flops)]
  return line


def _details(study) -> dict[str, Mapping[str, str]]:
  """By row, what the publication says beside scores: parameters, cost."""
  if not study.published:
    return {}
  details = published.load(study.published).details
  return {
    row: details[info.published]
    for row, info in study.rows.items()
    if info.published in details
  }


def _share(value: float, base: float | None) -> page.Cell:
  share = budgets.share(value, base)
  small = share and f"<small>{share}</small>"
  return page.Cell(compact(value) + small, value)
