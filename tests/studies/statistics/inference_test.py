"""Intervals and p-values: against scipy, by hand, and by their coverage."""

import math

import numpy as np
import pytest
import scipy.stats

from transformer_zoo.studies.statistics import inference

ROW, BASELINE = np.array([81.0, 83.5, 82.0]), np.array([79.0, 80.5, 78.0])


def test_without_examples_it_is_welchs_test():
  found = inference.estimate(ROW, BASELINE)
  oracle = scipy.stats.ttest_ind(ROW, BASELINE, equal_var=False)
  interval = oracle.confidence_interval(0.95)
  assert found.difference == pytest.approx(3.0)
  assert found.p_value == pytest.approx(oracle.pvalue)
  assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
  assert found.degrees == pytest.approx(oracle.df)
  assert found.examples_error is None


def test_examples_add_variance_that_needs_no_degrees_of_freedom():
  found = inference.estimate(ROW, BASELINE, 4.0)
  seeds = np.var(ROW, ddof=1) / 3 + np.var(BASELINE, ddof=1) / 3
  assert found.seeds_error == pytest.approx(math.sqrt(seeds))
  assert found.examples_error == 2.0
  assert found.degrees > inference.estimate(ROW, BASELINE).degrees
  many = inference.estimate(ROW, BASELINE, 1e6)
  assert many.high - many.difference == pytest.approx(1959.96, rel=1e-3)


def test_a_single_seed_has_no_p_value():
  found = inference.estimate(ROW[:1], BASELINE[:1], 1.0)
  assert found.p_value is None and found.seeds_error is None
  assert found.high - found.low == pytest.approx(2 * 1.95996, rel=1e-4)
  alone = inference.estimate(ROW[:1], BASELINE[:1])
  assert alone.low is None and alone.p_value is None


def test_scores_without_any_spread():
  same = np.array([50.0, 50.0])
  assert inference.estimate(same, same, 0.0).p_value == 1.0
  apart = inference.estimate(same + 1, same, 0.0)
  assert apart.p_value is None and apart.low is None and apart.high is None
  # Nor is anything known where no choice of the examples makes a difference.
  assert inference.estimate(same[:1] + 1, same[:1], 0.0).low is None
  # Their sum is rounded, so that NumPy finds a variance of 1e-30.
  third = np.full(3, 100 * 17 / 277)
  assert np.var(third, ddof=1) > 0
  assert inference.estimate(third, third + 40).p_value is None


def test_examples_count_by_what_they_do_to_all_seeds_alike():
  rng = np.random.default_rng(0)
  common_B1 = rng.normal(0, 2.0, (20_000, 1))
  own_BS = rng.normal(0, 5.0, (20_000, 3))
  shared = inference.examples_variance(common_B1 + own_BS)
  assert shared == pytest.approx(4.0, rel=0.1)
  assert inference.examples_variance(common_B1) == pytest.approx(4.0, rel=0.05)
  # Seeds that examples divide have nothing in common.
  opposed_BS = np.concatenate([common_B1, -common_B1], axis=1)
  assert inference.examples_variance(opposed_BS) == 0.0


def test_coverage_with_three_seeds():
  """Of 95 % intervals about 95 % hold; of percentile intervals far fewer."""
  rng = np.random.default_rng(3)
  held = held_percentile = 0
  for _ in range(400):
    seeds_2S = rng.normal(0, 1.0, (2, 3))
    examples = rng.normal(0, 0.5)
    scores_2S = seeds_2S + np.array([[examples], [0.0]])
    difference_S = scores_2S[0] - scores_2S[1]
    drawn_BS = difference_S + rng.normal(0, 0.5, (300, 1))
    found = inference.estimate(
      *scores_2S, inference.examples_variance(drawn_BS)
    )
    held += found.low <= 0 <= found.high
    low, high = inference.percentile_interval(drawn_BS)
    held_percentile += low <= 0 <= high
  assert held >= 0.93 * 400
  assert held_percentile <= 0.90 * 400


def test_holm_by_hand():
  # 4 × 0.005; 3 × 0.01; then 2 × 0.03 = 0.06, below which 0.04 cannot fall.
  assert inference.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx(
    [0.03, 0.06, 0.06, 0.02]
  )
  assert inference.holm([0.7, 0.6]) == [1.0, 1.0]
  assert inference.holm([]) == []


def test_holm_is_right_in_nineteen_of_twenty_studies_without_differences():
  p_values = np.random.default_rng(0).random((2000, 10))
  wrong = sum(min(inference.holm(study)) <= 0.05 for study in p_values)
  assert wrong / 2000 == pytest.approx(0.05, abs=0.015)


def test_what_seeds_can_show():
  # t of 4 degrees, 2.776, times sqrt(2 / 3).
  assert inference.deviations_needed(3) == pytest.approx(2.267, abs=1e-3)
  assert inference.deviations_needed(3, 20) > 2 * inference.deviations_needed(3)
  found = inference.estimate(
    np.array([-1.0, 0.0, 1.0]) + inference.deviations_needed(3),
    np.array([-1.0, 0.0, 1.0]),
  )
  assert found.p_value == pytest.approx(0.05)
