"""Numbers as text, and the conclusions of statistics as sentences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformer_zoo.studies.statistics import inference

if TYPE_CHECKING:
  from transformer_zoo.studies.statistics.comparison import Difference
  from transformer_zoo.studies.statistics.ranking import Ranking

_SMALL = 1 - inference.LEVEL
_PERCENT = f"{100 * inference.LEVEL:.0f} %"


def verdict(
  found: "Difference", row: str, baseline: str, num_comparisons: int
) -> str:
  """Returns the conclusion about a row in a column.

  Args:
    found: The difference with its corrected p-value.
    row: The label of the row.
    baseline: The label of the baseline.
    num_comparisons: The number of comparisons made together.
  """
  estimate = found.estimate
  if found.is_same:
    return (
      f"{row} and {baseline} ({found.column}) are the very same runs: what "
      "differs between the rows changes nothing here."
    )
  if estimate is None:
    return (
      f"{row} − {baseline} ({found.column}): no seed has both scores, so "
      "nothing can be said."
    )
  decimals = 3 if found.is_loss else 2
  difference, low, high = (
    value if value is None else signed(value, decimals)
    for value in (estimate.difference, estimate.low, estimate.high)
  )
  head = f"{row} − {baseline} = {difference} ({found.column})"
  if low is not None:
    head += f", {_PERCENT} interval {low} to {high}"
  if len(found.seeds) == 1:
    return f"{head}. {_of_one_seed(estimate)}"
  if estimate.p_value is None:
    return (
      f"{head}. No seed differs from another, so there is nothing to measure "
      "the difference against."
    )
  head += f", {p_value(estimate.p_value)}"
  if num_comparisons > 1:
    head += (
      f", corrected for {num_comparisons} comparisons "
      f"{p_value(found.corrected_p_value)}"
    )
  return f"{head}. {_conclusion(found, row, num_comparisons, decimals)}"


def notes(
  num_seeds: int, num_comparisons: int, reasons: Sequence[str]
) -> tuple[str, ...]:
  """Returns sentences about the power of a study and the limits of its numbers.

  Args:
    num_seeds: The number of seeds of every row.
    num_comparisons: The number of comparisons made together.
    reasons: Sentences about tasks whose examples could not be resampled.
  """
  lines = []
  if num_seeds == 1:
    lines.append(
      "With one seed no difference can be told from what another seed would "
      "do: intervals are of these very models over other examples, and nothing "
      "is tested."
    )
  elif num_comparisons:
    alone = inference.deviations_needed(num_seeds)
    together = inference.deviations_needed(num_seeds, num_comparisons)
    line = (
      f"What {num_seeds} seeds can show: a single difference counts from about "
      f"{alone:.1f} standard deviations over seeds on"
    )
    if num_comparisons > 1:
      line += (
        f", the clearest of {num_comparisons} comparisons from about "
        f"{together:.1f}"
      )
    line += (
      ". They cannot show that two rows are equally good: where no difference "
      "can be concluded, the interval says how large it may be."
    )
    lines.append(line)
  if num_comparisons:
    lines.append(
      f"Intervals hold for each comparison alone in {_PERCENT} of cases "
      "(Student's t; seeds, and evaluation examples by a paired bootstrap). "
      "Corrected p-values are Holm's, over all rows and columns: among those "
      f"at most {_SMALL:.2f} one is wrong in at most one of twenty studies."
    )
  if reasons:
    lines.append(
      "Evaluation examples are taken as they are, not as drawn from more of "
      f"their kind, in columns that need predictions {' '.join(reasons)}"
    )
  return tuple(lines)


def of_ranking(found: "Ranking", column: str) -> str:
  """Returns the agreement of a column's order with the published one."""
  if found.tau is None:
    return (
      f"{column}: fewer than two rows have different scores here and in print, "
      "so there is no order to compare."
    )
  text = f"{column}: Kendall's tau {signed(found.tau)}"
  if found.low is not None:
    text += (
      f" ({_PERCENT} interval {signed(found.low)} to {signed(found.high)})"
    )
  text += (
    f" over {found.num_rows} rows; {found.num_same} of {found.num_pairs} pairs "
    "stand in the published order"
  )
  if not found.num_clear:
    text += ", and print tells none apart by more than two deviations"
  elif found.num_clear != found.num_pairs:
    text += (
      f", and {found.num_clear_same} of the {found.num_clear} that are more "
      "than two deviations apart in print"
    )
  text += f". An order at random agrees so much with {p_value(found.p_value)}"
  if found.smallest_p_value > _SMALL:
    text += (
      f": {found.num_rows} rows are too few to show agreement, the very same "
      f"order has {p_value(found.smallest_p_value)}"
    )
  elif found.p_value > _SMALL:
    text += ": agreement cannot be concluded"
  elif found.tau > 0:
    text += ": the orders agree"
  else:
    text += ": the orders contradict each other"
  return text + "."


def p_value(value: float) -> str:
  """Returns `p = 0.012`, or `p < 0.001`."""
  return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def number(value: float, decimals: int = 2) -> str:
  """Returns a score with a typographic minus."""
  return f"{value:.{decimals}f}".replace("-", "−")


def signed(value: float, decimals: int = 2) -> str:
  """Returns a difference with its sign and a typographic minus."""
  return f"{value:+.{decimals}f}".replace("-", "−")


def compact(value: float) -> str:
  """Returns a count in three digits: `812 k`, `34.4 M`, `1.23 G`, `4.5 P`."""
  for exponent, unit in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M")):
    if value >= 0.9995 * 10**exponent:
      return f"{_three_digits(value / 10**exponent)} {unit}"
  return f"{value:,.0f}" if value < 1e5 else f"{_three_digits(value / 1e3)} k"


def _three_digits(value: float) -> str:
  return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def _of_one_seed(estimate: inference.Estimate) -> str:
  if estimate.low is None and estimate.examples_error is None:
    return "With one seed and without predictions nothing can be concluded."
  if estimate.low is None:
    return (
      "No choice of the examples changes that, so there is nothing to measure "
      "the difference against."
    )
  if estimate.low <= 0 <= estimate.high:
    return (
      "These two models are not told apart by so many examples; with one seed "
      "nothing can be concluded about others."
    )
  return (
    "These two models differ by more than their examples do; with one seed "
    "nothing can be concluded about others."
  )


def _conclusion(found, row: str, num_comparisons: int, decimals: int) -> str:
  estimate = found.estimate
  if found.concluded:
    higher = estimate.difference > 0
    word = "worse" if higher == found.is_loss else "better"
    return f"{row} is {word}, by more than chance explains."
  if estimate.p_value <= _SMALL:
    return (
      "By itself this would be a difference; as one of "
      f"{num_comparisons} comparisons it may well be chance."
    )
  if estimate.low is None:
    return "The two score the same with every seed."
  half = (estimate.high - estimate.low) / 2
  return (
    "No difference can be concluded: with these seeds and examples one below "
    f"about {half:.{decimals}f} is not told from none."
  )
