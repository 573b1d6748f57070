"""The ladder: one study on suites of rising cost, and what it agrees with.

A study that agrees with the publication at one budget need not at a smaller
one. Where a study stands on several suites, Kendall's tau with the published
order is put over the training FLOPs of the baseline.
"""

from collections.abc import Iterable
import dataclasses

from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.ranking import MeanTau


@dataclasses.dataclass(frozen=True)
class Rung:
  """A study on one suite.

  Attributes:
    suite: The name and version of the suite.
    seeds: The number of seeds.
    flops: The training FLOPs of the baseline with one seed, all phases and
      groups together.
    tau: The mean over columns of Kendall's tau with its interval.
  """

  suite: str
  seeds: int
  flops: float
  tau: MeanTau


@dataclasses.dataclass(frozen=True)
class Ladder:
  """A study on several suites.

  Attributes:
    study: The name of the study.
    rungs: Two rungs or more, by rising FLOPs.
  """

  study: str
  rungs: tuple[Rung, ...]


def ladders(analyses: Iterable[Analysis]) -> tuple[Ladder, ...]:
  """Returns the ladders among studies, in the order of the studies.

  A suite without a finished baseline or without an order is left out.
  """
  found: dict[str, list[Rung]] = {}
  for one in analyses:
    budget = one.budgets.get(one.study.baseline)
    if one.tau is not None and budget is not None and budget.flops:
      rung = Rung(
        one.study.suite_title, len(one.study.seeds), budget.flops, one.tau
      )
      found.setdefault(one.study.name, []).append(rung)
  return tuple(
    Ladder(name, tuple(sorted(rungs, key=lambda rung: rung.flops)))
    for name, rungs in found.items()
    if len(rungs) > 1
  )
