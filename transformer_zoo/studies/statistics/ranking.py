"""Whether the rows of a study stand in the published order.

The measure is Kendall's tau-b. The rows are all rows that there are, no sample
of more, so its interval comes from the scores alone: tau is computed again for
scores that are each drawn within their own error, ours and the published ones.
Noise takes order away, so the interval leans towards 0. Whether an order
at random would agree as well is another question; the p-value answers it by
permuting the rows, and four rows cannot have one below 0.08.
"""

from collections.abc import Sequence
import dataclasses

import numpy as np
import scipy.stats

from transformer_zoo.studies.statistics import inference
from transformer_zoo.studies.statistics.sums import ratio


@dataclasses.dataclass(frozen=True)
class Ranking:
  """How far two orders of the same rows agree.

  Attributes:
    tau: Kendall's tau-b, from -1 to 1; None where a side has no order: fewer
      than two rows, or all scores equal.
    low: lower end of tau's interval; None where the error of our scores is not
      known.
    high: upper end.
    p_value: two-sided, of an order at random agreeing or disagreeing as much.
    smallest_p_value: what the very same order would have.
    num_rows: rows that both have.
    num_pairs: pairs of rows that are not equal on either side.
    num_same: pairs in the same order.
    num_clear: pairs more than two published deviations apart.
    num_clear_same: those of them in the same order; ties are not.
    taus_B: tau of scores drawn within their errors, of which `low` and `high`
      are quantiles.
  """

  tau: float | None
  low: float | None
  high: float | None
  p_value: float | None
  smallest_p_value: float | None
  num_rows: int
  num_pairs: int
  num_same: int
  num_clear: int
  num_clear_same: int
  taus_B: np.ndarray | None = dataclasses.field(
    default=None, repr=False, compare=False
  )


def rank(
  ours: Sequence[float],
  published: Sequence[float],
  *,
  our_noise_BR: np.ndarray | None = None,
  deviation: float = 0.0,
) -> Ranking:
  """Compares the order of rows by our scores with that by published ones.

  Args:
    ours: a score for each row, R.
    published: the same of the publication.
    our_noise_BR: draws of what may be added to `ours`; None where unknown.
    deviation: of a published score.
  """
  ours_R, published_R = np.array(ours, float), np.array(published, float)
  mine_RR, theirs_RR = _order(ours_R), _order(published_R)
  pairs = np.triu_indices(len(ours_R), 1)
  products = (mine_RR * theirs_RR)[pairs]
  clear = told_apart((published_R[:, None] - published_R)[pairs], deviation)
  tau = low = high = p_value = smallest = taus_B = None
  if mine_RR.any() and theirs_RR.any():
    tau = float(_taus(ours_R, published_R))
    p_value = _p_value(ours_R, published_R)
    smallest = _p_value(published_R, published_R)
    if our_noise_BR is not None:
      taus_B = _drawn(ours_R, published_R, our_noise_BR, deviation)
      low, high = interval(taus_B)
  return Ranking(
    tau=tau,
    low=low,
    high=high,
    p_value=p_value,
    smallest_p_value=smallest,
    num_rows=len(ours_R),
    num_pairs=int((products != 0).sum()),
    num_same=int((products > 0).sum()),
    num_clear=int(clear.sum()),
    num_clear_same=int((products[clear] > 0).sum()),
    taus_B=taus_B,
  )


def told_apart(
  differences: np.ndarray | float, deviation: float
) -> np.ndarray | bool:
  """Whether scores in print differ by more than two of their deviations.

  As by the rule for bold of Raffel et al. 2020, section 3.1; or at all, where
  the deviation is not known and 0.

  Args:
    differences: of published scores, of any shape.
    deviation: of a published score.
  """
  # Few decimals: two deviations are met exactly now and then, and are not
  # exceeded by what binary fractions add.
  return np.abs(differences) > 2 * deviation + 1e-9


def interval(taus_B: np.ndarray) -> tuple[float, float]:
  """Returns the ends of the interval of draws."""
  outside = (1 - inference.LEVEL) / 2
  low, high = np.quantile(taus_B, [outside, 1 - outside])
  return float(low), float(high)


def _order(scores_BR: np.ndarray) -> np.ndarray:
  """-1, 0 or 1 for each two rows, [B, R, R]."""
  return np.sign(scores_BR[..., :, None] - scores_BR[..., None, :])


def _taus(x_BR: np.ndarray, y_BR: np.ndarray) -> np.ndarray:
  """Kendall's tau-b of each draw; 0 where a side has no order."""
  x_BRR, y_BRR = _order(x_BR), _order(y_BR)
  x_B, y_B = ((order != 0).sum((-1, -2)) for order in (x_BRR, y_BRR))
  return ratio((x_BRR * y_BRR).sum((-1, -2)), np.sqrt(x_B * y_B))


def _drawn(ours_R, published_R, our_noise_BR, deviation) -> np.ndarray:
  """Tau of scores drawn within their errors, [B]."""
  draws = np.random.default_rng(0)
  theirs_BR = published_R + draws.normal(0, deviation, our_noise_BR.shape)
  return _taus(ours_R + our_noise_BR, theirs_BR)


def _p_value(x_R: np.ndarray, y_R: np.ndarray) -> float:
  """By all permutations of the rows, or 10,000 of them where there are more."""
  mine_RR = _order(x_R)

  # Of either sign: with ties on both sides the two tails are not alike, and
  # twice the smaller is not the share of orders that say as much.
  def agreement(y, axis):
    theirs = _order(np.moveaxis(y, axis, -1))
    return abs((mine_RR * theirs).sum((-1, -2)))

  result = scipy.stats.permutation_test(
    (y_R,),
    agreement,
    permutation_type="pairings",
    vectorized=True,
    alternative="greater",
    n_resamples=10_000,
    batch=1000,
    rng=np.random.default_rng(0),
  )
  return float(result.pvalue)
