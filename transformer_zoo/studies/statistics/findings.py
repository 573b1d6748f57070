"""Published findings about rows, beside this study's."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import enum

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import ranking
from transformer_zoo.studies.statistics import wording
from transformer_zoo.studies.statistics.comparison import Comparison
from transformer_zoo.studies.statistics.scores import Table


class Verdict(enum.Enum):
  """The outcome of a published difference in this study."""

  SAME = "as published"
  OPPOSITE = "against the publication"
  OPEN = "not significant here"
  NEW = "significant here alone"


@dataclasses.dataclass(frozen=True)
class Finding:
  """A difference from the baseline, here and in print.

  Attributes:
    row: The name of the row.
    column: The name of the column.
    ours: The difference in this study.
    published: The published difference.
    verdict: The outcome of comparing the two.
    decimals: The number of digits that are printed.
  """

  row: str
  column: str
  ours: float
  published: float
  verdict: Verdict
  decimals: int = 2

  @property
  def is_alike(self) -> bool:
    """Whether both differences have the same sign."""
    return self.ours * self.published > 0


def find(
  study: StudyResults, table: Table, comparison: Comparison
) -> tuple[Finding, ...]:
  """Finds the differences that are clear in the publication or in this study.

  A difference from the baseline is clear in the publication if it is more than
  two of its deviations, or any if it gives none; in this study if it is more
  than chance explains, corrected for all comparisons.

  Args:
    study: The results of the study's runs.
    table: The scores of the study.
    comparison: The comparison of its rows with the baseline.

  Returns:
    The differences that are clear in either, for rows and columns of both.
  """
  found = []
  for (row, column), difference in comparison.differences.items():
    cell = table.cells[row, column]
    if cell.difference is None or cell.published_difference is None:
      continue
    deviation = ranking.published_deviation(study, column)
    in_print = ranking.is_clear(cell.published_difference, deviation)
    if in_print or difference.concluded:
      one = Finding(
        row,
        column,
        cell.difference,
        cell.published_difference,
        Verdict.NEW,
        cell.decimals,
      )
      if in_print:
        verdict = _verdict(one, difference.concluded)
        one = dataclasses.replace(one, verdict=verdict)
      found.append(one)
  return tuple(found)


def sentences(
  findings: Sequence[Finding], labels: Mapping[str, str], baseline: str
) -> list[str]:
  """Returns sentences about agreement and disagreement with the publication.

  Published differences stand in brackets behind ours.

  Args:
    findings: The result of `find`.
    labels: The labels of the rows by their names.
    baseline: The name of the baseline.
  """
  if not findings:
    return []
  in_print = sum(one.verdict is not Verdict.NEW for one in findings)
  lines = [
    f"Differences from {labels[baseline]} that are clear in the publication: "
    f"{in_print}."
  ]
  for verdict, words in (
    (Verdict.SAME, "As published, by more than chance explains"),
    (Verdict.OPPOSITE, "Against it, by more than chance explains"),
    (Verdict.NEW, "Significant here and not clear in print"),
  ):
    chosen = [one for one in findings if one.verdict is verdict]
    if chosen:
      rows = "; ".join(_of_rows(chosen, labels))
      lines.append(f"{words} ({len(chosen)}): {rows}.")
  still_open = [one for one in findings if one.verdict is Verdict.OPEN]
  if still_open:
    alike = sum(one.is_alike for one in still_open)
    lines.append(
      f"Not significant here ({len(still_open)}), in the published "
      f"direction {alike}."
    )
  return lines


def _verdict(one: Finding, concluded: bool) -> Verdict:
  if not concluded:
    return Verdict.OPEN
  return Verdict.SAME if one.is_alike else Verdict.OPPOSITE


def _of_rows(findings, labels) -> Iterator[str]:
  """`No pre-training: GLUE −12.96 [−17.06], EnDe −45.72 [−1.12]`."""
  by_row = {}
  for one in findings:
    ours, published = (
      wording.signed(value, one.decimals) for value in (one.ours, one.published)
    )
    text = f"{one.column} {ours} [{published}]"
    by_row.setdefault(one.row, []).append(text)
  for row, differences in by_row.items():
    yield f"{labels[row]}: {', '.join(differences)}"
