"""The analysis of a study: everything that its reports show."""

from collections.abc import Mapping
import dataclasses

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics import conclusions
from transformer_zoo.studies.statistics import findings
from transformer_zoo.studies.statistics import inference
from transformer_zoo.studies.statistics import power
from transformer_zoo.studies.statistics import ranking
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import study_resamples
from transformer_zoo.studies.statistics import wording
from transformer_zoo.studies.statistics.budgets import Budget
from transformer_zoo.studies.statistics.comparison import compare
from transformer_zoo.studies.statistics.comparison import Comparison
from transformer_zoo.studies.statistics.conclusions import Judged
from transformer_zoo.studies.statistics.findings import Finding
from transformer_zoo.studies.statistics.findings import Verdict
from transformer_zoo.studies.statistics.power import Power
from transformer_zoo.studies.statistics.ranking import Agreement
from transformer_zoo.studies.statistics.ranking import MeanTau
from transformer_zoo.studies.statistics.scores import Table


@dataclasses.dataclass(frozen=True)
class Analysis:
  """The numbers and conclusions of a study, from which all reports are made.

  Attributes:
    study: The results of the study's runs.
    table: The scores of every row and column.
    budgets: The cost of each row that has a finished seed, by row.
    comparison: The comparison of every row with the baseline.
    agreements: The agreement of each column with its published one, by column.
      Columns without a published one are left out.
    findings: The differences that are clear in the publication or in this
      study.
    powers: The smallest detectable difference, by column.
    judged: The published conclusions with their verdicts.
  """

  study: StudyResults
  table: Table
  budgets: Mapping[str, Budget]
  comparison: Comparison
  agreements: Mapping[str, Agreement]
  findings: tuple[Finding, ...]
  powers: tuple[Power, ...]
  judged: tuple[Judged, ...]

  @property
  def tau(self) -> MeanTau | None:
    """The mean over columns of Kendall's tau with the published order."""
    return ranking.mean_tau(self.agreements.values())

  @property
  def power(self) -> str:
    """The smallest detectable differences, in words."""
    return power.sentence(self.powers, len(self.study.seeds))

  @property
  def blind(self) -> frozenset[str]:
    """The columns in which a difference of 3 points cannot be detected."""
    return frozenset(one.column for one in self.powers if one.is_blind)

  @property
  def gaps(self) -> list[str]:
    """Sentences about cells that are empty though their runs have finished."""
    return scores.gaps(self.study)

  @property
  def beside_published(self) -> list[str]:
    """Sentences about agreement and disagreement with the publication."""
    table = self.table
    lines = findings.sentences(self.findings, table.labels, table.baseline)
    return [*lines, self.tau.sentence] if self.tau else lines

  @property
  def verdicts(self) -> list[str]:
    """Sentences about the published conclusions and their verdicts."""
    return conclusions.sentences(self.judged)

  @property
  def concluded(self) -> list[str]:
    """Sentences about the differences that are more than chance explains."""
    found = self.comparison.differences.values()
    return [one.sentence for one in found if one.concluded]

  @property
  def open(self) -> list[str]:
    """Sentences about the differences that chance may explain."""
    found = self.comparison.differences.values()
    return [one.sentence for one in found if not one.concluded]

  def count(self, verdict: Verdict) -> int:
    """Returns the number of findings with a verdict."""
    return sum(one.verdict is verdict for one in self.findings)

  @property
  def answer(self) -> str:
    """The largest difference from the baseline in each column, in words."""
    table, parts = self.table, []
    for column in table.columns:
      cells = {
        row: cell
        for row, cell in table.of_column(column).items()
        if cell.difference is not None
      }
      if not cells:
        continue
      row = max(cells, key=lambda row: abs(cells[row].difference))
      cell = cells[row]
      text = wording.signed(cell.difference, cell.decimals)
      estimate = self.comparison.differences[row, column].estimate
      if estimate is not None and estimate.low is not None:
        low, high = (
          wording.signed(end, cell.decimals)
          for end in (estimate.low, estimate.high)
        )
        text += f" ({inference.PERCENT} interval {low} to {high})"
      parts.append(f"{column} {text}, {table.labels[row]}")
    if not parts:
      return ""
    base = table.labels[table.baseline]
    what = "Difference" if len(table.others) == 1 else "Largest difference"
    return f"{what} from {base}: {'; '.join(parts)}."

  @property
  def summary(self) -> str:
    """A sentence that counts concluded differences; "" without any test."""
    number = self.comparison.num_comparisons
    base = self.table.labels[self.table.baseline]
    if not number:
      return ""
    concluded = len(self.concluded)
    if number == 1:
      part = "The one difference" if concluded else "No difference"
    else:
      part = f"{concluded or 'None'} of the {number} differences"
    verb = "are" if concluded > 1 else "is"
    return (
      f"{part} from {base} {verb} more than chance explains, corrected for all "
      "comparisons of this study."
    )


def analyse(study: StudyResults) -> Analysis:
  """Computes the analysis of a study.

  Raises:
    UserError: The study names a published table or row that does not exist.
  """
  table = scores.build(study)
  resamples = study_resamples.resample(study)
  comparison = compare(study, resamples)
  costs = budgets.of_rows(study)
  return Analysis(
    study=study,
    table=table,
    budgets=costs,
    comparison=comparison,
    agreements={
      column: ranking.agreement(study, column, resamples)
      for column in table.columns
      if any(
        cell.mean is not None and cell.published is not None
        for cell in table.of_column(column).values()
      )
    },
    findings=findings.find(study, table, comparison),
    powers=power.of_columns(study, table, resamples),
    judged=conclusions.judge(study, table, resamples, costs),
  )
