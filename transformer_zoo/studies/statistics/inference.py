"""Intervals and p-values of differences between two rows of scores.

What is estimated: the mean over seeds of a row's score minus the baseline's,
were there many more seeds and evaluation examples of the same kind. Its
variance has two parts.

- Seeds: s² / S of either row, added (Welch): what another initialisation and
  order of the data do, and how examples fare with one seed and not with
  another. The rows have the same seeds; what the scores of a seed have in
  common makes the true variance smaller than this sum, and three pairs are too
  few to estimate by how much.
- Examples: what drawing other ones does to all seeds alike, the covariance of
  the rows' differences between seeds over resamples of the examples. Both rows
  see the same resamples, so what makes an example hard for both falls out.

The interval is Student's t with Satterthwaite's degrees of freedom: as many as
the seeds give where seeds dominate, infinitely many where the examples do. A
percentile interval of resampled seeds is too narrow with few of them: three
seeds that agree in sign, as they do by chance once in four times, would never
give an interval that has zero in it. (Hesterberg 2015, What Teachers Should
Know About the Bootstrap, on small samples; the coverage of both is in
docs/reference/statistics.md.)
"""

from collections.abc import Sequence
import dataclasses
import math

import numpy as np
import scipy.optimize
import scipy.stats

LEVEL = 0.95
PERCENT = f"{100 * LEVEL:.0f} %"
POWER = 0.8
# Noncentralities between which the one of a power is searched: two seeds, which
# need most, have 6.8.
_NONCENTRALITIES = (0.0, 20.0)
# A t of more degrees of freedom is normal, and SciPy's sums become slow.
_MOST_DEGREES = 1e5


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A difference of means with its errors, interval and p-value.

  Attributes:
    difference: The mean of one row, or of several, minus the others' mean.
    seeds_error: The standard error due to seeds; None with a single seed.
    examples_error: The standard error due to examples; None if unknown.
    degrees: The degrees of freedom of t; infinite if only examples count.
    low: The lower end of the interval; None if the error is unknown or no
      spread is observed.
    high: The upper end of the interval; None like `low`.
    p_value: The two-sided p-value of no difference; None with a single seed or
      without any spread.
  """

  difference: float
  seeds_error: float | None
  examples_error: float | None
  degrees: float
  low: float | None
  high: float | None
  p_value: float | None


def estimate(
  row_S: np.ndarray,
  baseline_S: np.ndarray,
  examples_variance: float | None = None,
) -> Estimate:
  """Compares the scores of two rows with the same seeds.

  Args:
    row_S: The scores of a row, one per seed.
    baseline_S: The scores of the baseline, one per seed.
    examples_variance: The variance of the difference due to the examples; None
      if unknown, so that the interval holds for these examples alone.
  """
  scores_RS = np.stack([row_S, baseline_S])
  return contrast(scores_RS, np.array([1.0, -1.0]), examples_variance)


def contrast(
  scores_RS: np.ndarray,
  weights_R: np.ndarray,
  examples_variance: float | None = None,
) -> Estimate:
  """Estimates a weighted sum of the means of rows with the same seeds.

  Args:
    scores_RS: The scores of each row, one per seed.
    weights_R: The weights of the rows, such as 1 and -1 for a difference.
    examples_variance: The variance of the sum due to the examples; None if
      unknown, so that the interval holds for these examples alone.
  """
  num_seeds = scores_RS.shape[1]
  difference = float(weights_R @ scores_RS.mean(axis=1))
  parts = np.zeros(len(weights_R))
  if num_seeds > 1:
    parts = weights_R**2 * [_variance(row_S) for row_S in scores_RS]
    parts = parts / num_seeds
  variance = float(parts.sum() + (examples_variance or 0.0))
  degrees = math.inf
  if parts.any():
    degrees = float(variance**2 / (parts**2).sum() * (num_seeds - 1))
  low = high = p_value = None
  if variance > 0:
    error = math.sqrt(variance)
    half = error * float(scipy.stats.t.ppf((1 + LEVEL) / 2, degrees))
    low, high = difference - half, difference + half
    if num_seeds > 1:
      p_value = float(2 * scipy.stats.t.sf(abs(difference) / error, degrees))
  elif num_seeds > 1 and difference == 0:
    p_value = 1.0
  return Estimate(
    difference=difference,
    seeds_error=math.sqrt(parts.sum()) if num_seeds > 1 else None,
    examples_error=None
    if examples_variance is None
    else math.sqrt(examples_variance),
    degrees=degrees,
    low=low,
    high=high,
    p_value=p_value,
  )


def _variance(scores_S: np.ndarray) -> float:
  """The sample variance, exactly 0 if all scores are equal."""
  return float(np.var(scores_S, ddof=1)) if np.ptp(scores_S) else 0.0


def examples_variance(difference_BS: np.ndarray) -> float:
  """Returns the variance that all seeds share over resamples of the examples.

  Args:
    difference_BS: The differences of two rows for each resample and seed.

  Returns:
    The mean covariance of two seeds, not below 0; with a single seed its
    variance. The variance of one seed alone is in the spread between seeds.
  """
  covariance_SS = np.atleast_2d(np.cov(difference_BS, rowvar=False))
  num_seeds = len(covariance_SS)
  if num_seeds == 1:
    return float(covariance_SS[0, 0])
  shared = covariance_SS.sum() - np.trace(covariance_SS)
  return max(0.0, float(shared) / (num_seeds * (num_seeds - 1)))


def percentile_interval(difference_BS: np.ndarray) -> tuple[float, float]:
  """Returns the plain paired bootstrap interval over seeds and examples.

  Each resample of the examples gets its own resample of the seeds. It is given
  beside the t interval for those who know it; with few seeds it is too narrow.

  Args:
    difference_BS: The differences of two rows for each resample and seed.
  """
  num_resamples, num_seeds = difference_BS.shape
  draws = np.random.default_rng(num_seeds)
  seeds_BS = draws.integers(num_seeds, size=(num_resamples, num_seeds))
  means_B = np.take_along_axis(difference_BS, seeds_BS, axis=1).mean(axis=1)
  outside = (1 - LEVEL) / 2
  low, high = np.quantile(means_B, [outside, 1 - outside])
  return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
  """Returns p-values that hold for all comparisons together (Holm 1979).

  Among those at most 0.05, one is wrong in at most one of twenty studies,
  however the comparisons depend on each other.
  """
  order = np.argsort(p_values, kind="stable")
  factors = len(p_values) - np.arange(len(p_values))
  corrected = np.minimum(1.0, np.asarray(p_values)[order] * factors)
  result = np.empty(len(p_values))
  result[order] = np.maximum.accumulate(corrected)
  return result.tolist()


def deviations_needed(num_seeds: int, num_comparisons: int = 1) -> float:
  """Returns how large a difference must be to count, in deviations over seeds.

  For two rows with equal deviations, examples aside. Of several comparisons it
  is what Holm's correction asks of the clearest.

  Args:
    num_seeds: The number of seeds of either row, two or more.
    num_comparisons: The number of comparisons made together.
  """
  outside = (1 - LEVEL) / (2 * num_comparisons)
  quantile = scipy.stats.t.isf(outside, 2 * (num_seeds - 1))
  return float(quantile * math.sqrt(2 / num_seeds))


def smallest_difference(
  deviation: float, num_seeds: int, examples_variance: float = 0.0
) -> float:
  """Returns the smallest detectable true difference of two rows.

  `estimate` finds it significant, with its sign, two-sided at 5 % and
  uncorrected, in 80 % of studies. The power follows from the noncentral t
  distribution.

  Args:
    deviation: The standard deviation of either row over seeds.
    num_seeds: The number of seeds of either row, two or more.
    examples_variance: The variance of the difference due to the examples.
  """
  of_row = deviation**2 / num_seeds
  variance = 2 * of_row + examples_variance
  if not variance:
    return 0.0
  degrees = _MOST_DEGREES
  if of_row:
    degrees = variance**2 / (2 * of_row**2) * (num_seeds - 1)
    degrees = min(degrees, _MOST_DEGREES)
  critical = scipy.stats.t.isf((1 - LEVEL) / 2, degrees)

  def excess(noncentrality: float) -> float:
    return scipy.stats.nct.sf(critical, degrees, noncentrality) - POWER

  noncentrality = scipy.optimize.brentq(excess, *_NONCENTRALITIES)
  return float(noncentrality * math.sqrt(variance))
