"""Plots of a study's table: seeds, sensitivity, ours against the published."""

from collections.abc import Mapping
import re

from transformer_zoo.studies.report.cells import number
from transformer_zoo.studies.report.chart import Chart
from transformer_zoo.studies.report.chart import NUM_COLOURS
from transformer_zoo.studies.statistics.scores import Table

# "10%", "K = 2^-1", "1/4", ".1", "1e-4", "4,096 repeats": words, a number,
# words. A minus is a number's where no word stands right before it.
_NUMBER = re.compile(
  r"(\D*?)((?:(?<![^\s=])[-\u2212])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?)"
  r"(?:\^([-\u2212]?\d+)|/(\d+))?(?![\d.])(.*)"
)
_FEWEST_VALUES = 3
# Places of the colours of our line and of the published one, which is dashed.
OURS, THEIRS = 0, NUM_COLOURS + 1
# An axis is logarithmic where its values span more.
_WIDEST_LINEAR = 10


def seeds(table: Table, column: str) -> str:
  """Draws a column: a dot per seed, a bar at each row's mean.

  The shade behind is two standard deviations of the baseline to either side.

  Returns:
    An SVG element; "" where no row has a score.
  """
  cells = table.of_column(column)
  if all(cell.mean is None for cell in cells.values()):
    return ""
  chart = Chart(column)
  chart.reach(-0.5, len(cells) - 0.5)
  base = cells[table.baseline]
  if base.deviation is not None:
    more = 2 * base.deviation
    chart.shade(base.mean - more, base.mean + more)
  for place, (row, cell) in enumerate(cells.items()):
    if cell.mean is not None:
      for seed, value in cell.values.items():
        label = (
          f"{table.labels[row]}, seed {seed}: {number(value, cell.decimals)}"
        )
        chart.dots([place], [value], place, label)
      chart.dash(place, cell.mean, place)
  return chart.svg()


def sensitivities(table: Table) -> dict[str, dict[str, float]]:
  """Finds rows whose labels differ in a number alone.

  Returns:
    By what the labels have in common: `{row: number}`, rising. Three rows or
    more each.
  """
  found = {}
  for row in table.rows:
    match = _NUMBER.fullmatch(table.labels[row])
    if match:
      before, base, power, divisor, after = match.groups()
      base, power = (
        (text or "1").replace("\u2212", "-") for text in (base, power)
      )
      try:
        number = float(base.replace(",", "")) ** float(power)
        number /= float(divisor or 1)
      except ArithmeticError:  # "24/0": layers, and no fraction.
        continue
      name = " ".join(filter(None, (before.strip(" =,"), after.strip())))
      name = name or "value"
      found.setdefault(name, {})[row] = number
  return {
    name: dict(sorted(values.items(), key=lambda item: item[1]))
    for name, values in found.items()
    if len(set(values.values())) >= _FEWEST_VALUES
  }


def sensitivity(
  table: Table, column: str, name: str, values: Mapping[str, float]
) -> str:
  """Draws a column over the number in which rows differ.

  Ours with its deviation over seeds; the published one dashed. Both as
  differences from the baseline, for their levels need not compare.

  Args:
    table: the table.
    column: one of its columns.
    name: what the number is.
    values: by row.

  Returns:
    An SVG element; "" where fewer than two rows have a score.
  """
  cells = {row: table.cells[row, column] for row in values}
  ours = {
    row: cell.difference or 0.0
    for row, cell in cells.items()
    if cell.mean is not None
    and (cell.difference is not None or row == table.baseline)
  }
  if len(ours) < 2:
    return ""
  theirs = {
    row: cell.published_difference or 0.0
    for row, cell in cells.items()
    if cell.published is not None
    and (cell.published_difference is not None or row == table.baseline)
  }
  spread = max(values.values()) > _WIDEST_LINEAR * min(values.values()) > 0
  ticks = list(values.values()) if spread else None
  chart = Chart(column, name, "difference", log_x=spread, x_ticks=ticks)
  chart.level(0)
  for row, difference in ours.items():
    more = cells[row].deviation or 0.0
    chart.bar(values[row], difference - more, difference + more, OURS)
  for place, differences in ((OURS, ours), (THEIRS, theirs)):
    if len(differences) > 1:
      x, y = [values[row] for row in differences], list(differences.values())
      chart.line(x, y, place)
      chart.dots(x, y, place)
  return chart.svg()


def against_published(table: Table, column: str) -> str:
  """Draws our score of each row over the published one.

  The lines cross at the baseline: a row in the upper right or the lower left
  differs from it in the published direction.

  Returns:
    An SVG element; "" where fewer than two rows have both.
  """
  both = {
    row: cell
    for row, cell in table.of_column(column).items()
    if cell.mean is not None and cell.published is not None
  }
  if len(both) < 2:
    return ""
  chart = Chart(column, "published", "ours")
  if table.baseline in both:
    chart.upright(both[table.baseline].published)
    chart.level(both[table.baseline].mean)
  for row, cell in both.items():
    place, more = table.rows.index(row), cell.deviation or 0.0
    chart.bar(cell.published, cell.mean - more, cell.mean + more, place)
    chart.dots([cell.published], [cell.mean], place, table.labels[row])
  return chart.svg()
