"""What a study comes to: its table, its costs, and what follows from them."""

from collections.abc import Mapping
import dataclasses

from transformer_zoo.ablations import budgets
from transformer_zoo.ablations import scores
from transformer_zoo.ablations import statistics
from transformer_zoo.ablations.budgets import Budget
from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.ablations.scores import Table
from transformer_zoo.ablations.statistics import Agreement
from transformer_zoo.ablations.statistics import Comparison


@dataclasses.dataclass(frozen=True)
class Analysis:
  """Everything that the reports of a study say.

  Attributes:
    study: what its runs came to.
    table: its numbers.
    budgets: by row, of rows that have a finished seed.
    comparison: of every row with the baseline.
    agreements: by column, with the published one; of columns that have one.
  """

  study: StudyResults
  table: Table
  budgets: Mapping[str, Budget]
  comparison: Comparison
  agreements: Mapping[str, Agreement]

  @property
  def concluded(self) -> list[str]:
    """Sentences on the differences that are more than chance explains."""
    found = self.comparison.differences.values()
    return [one.sentence for one in found if one.concluded]

  @property
  def open(self) -> list[str]:
    """Sentences on the others."""
    found = self.comparison.differences.values()
    return [one.sentence for one in found if not one.concluded]

  @property
  def summary(self) -> str:
    """How many differences can be concluded; "" without any to test."""
    number = self.comparison.num_comparisons
    base = self.table.labels[self.table.baseline]
    if not number:
      return ""
    concluded = {0: "none is", 1: "one is"}.get(
      len(self.concluded), f"{len(self.concluded)} are"
    )
    return (
      f"Of {number} differences from {base} {concluded} more than chance "
      "explains, corrected for all of these comparisons."
    )


def analyse(study: StudyResults) -> Analysis:
  """Computes what a study comes to.

  Raises:
    UserError: the study names a published table or row that there is not.
  """
  table = scores.build(study)
  resamples = statistics.resample(study)
  return Analysis(
    study=study,
    table=table,
    budgets=budgets.of_rows(study),
    comparison=statistics.compare(study, resamples),
    agreements={
      column: statistics.agreement(study, column, resamples)
      for column in table.columns
      if any(
        cell.mean is not None and cell.published is not None
        for cell in table.of_column(column).values()
      )
    },
  )
