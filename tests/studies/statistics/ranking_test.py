import itertools
import types

import numpy as np
import pytest
import scipy.stats

from transformer_zoo.studies.statistics import ranking

PUBLISHED = [83.28, 82.82, 83.00, 81.27]


def test_tau_and_pairs():
  found = ranking.rank([50, 49, 51, 40], PUBLISHED, deviation=0.235)
  assert found.tau == pytest.approx(2 / 3)
  assert (found.num_rows, found.num_pairs, found.num_same) == (4, 6, 5)
  # 83.28 and 82.82, 83.28 and 83.00, 82.82 and 83.00 are within 0.47.
  assert (found.num_clear, found.num_clear_same) == (3, 3)


def test_two_deviations_are_not_more_than_two():
  # 18.26 - 18.13 is 0.13000000000000256 in binary, of the deviation 0.065.
  assert not ranking.is_clear(18.26 - 18.13, 0.065)
  assert ranking.is_clear(18.27 - 18.13, 0.065)


def test_what_print_tells_apart_counts_also_where_ours_are_equal():
  found = ranking.rank([50, 50, 40], [83.28, 81.27, 80.0], deviation=0.235)
  assert (found.num_pairs, found.num_same) == (2, 2)
  assert (found.num_clear, found.num_clear_same) == (3, 2)


def test_p_value_is_that_of_all_permutations():
  ours = [50, 49, 51, 40]
  taus = [
    scipy.stats.kendalltau(ours, order).statistic
    for order in itertools.permutations(PUBLISHED)
  ]
  share = np.mean(np.abs(taus) >= 2 / 3 - 1e-9)
  found = ranking.rank(ours, PUBLISHED)
  assert found.p_value == pytest.approx(share)
  assert found.smallest_p_value == pytest.approx(2 / 24)


def test_p_value_with_ties_on_both_sides():
  # Of the three orders (0, 0, 1), (0, 1, 0) and (1, 0, 0) one has tau -1 and
  # the others +1/2: one of three says as much.
  found = ranking.rank([2, 2, 0], [0, 0, 1])
  assert found.tau == pytest.approx(-1.0)
  assert found.p_value == pytest.approx(1 / 3)
  assert found.smallest_p_value == pytest.approx(1 / 3)


def test_agreement_of_many_rows():
  ours = np.arange(11.0)
  found = ranking.rank(ours, ours**2)
  assert found.tau == 1.0 and found.p_value < 0.001
  assert ranking.rank(ours, -ours).tau == -1.0


def test_tau_with_equal_scores_is_scipys():
  rng = np.random.default_rng(0)
  for _ in range(20):
    ours, theirs = rng.integers(0, 4, (2, 6)).astype(float)
    tau = scipy.stats.kendalltau(ours, theirs).statistic
    if not np.isnan(tau):
      assert ranking.rank(ours, theirs).tau == pytest.approx(tau)


def test_interval_widens_with_noise():
  rng = np.random.default_rng(0)
  ours = [3.0, 2.0, 1.0, 0.0]
  little, much = (
    ranking.rank(ours, ours, our_noise_BR=rng.normal(0, sd, (500, 4)))
    for sd in (0.01, 5.0)
  )
  assert (little.low, little.high) == (1.0, 1.0)
  assert much.low < 0 < much.high
  assert ranking.rank(ours, ours).low is None


def test_no_order_to_compare():
  assert ranking.rank([], []).tau is None
  assert ranking.rank([1.0], [2.0]).tau is None
  assert ranking.rank([1.0, 2.0], [5.0, 6.0]).tau is None  # One pair.
  assert ranking.rank([1.0, 2.0, 3.0], [5.0, 5.0, 5.0]).tau is None


def test_the_error_of_a_mean_is_that_of_its_seeds():
  cells = {
    "few": types.SimpleNamespace(values=[0.0] * 4, mean=0.0, deviation=2.0),
    "many": types.SimpleNamespace(values=[0.0] * 16, mean=0.0, deviation=2.0),
  }
  resamples = types.SimpleNamespace(of_seeds=lambda *_: None)
  found = ranking._noise(cells, "column", resamples).std(axis=0)
  np.testing.assert_allclose(found, [1.0, 0.5], rtol=0.1)
