import tracemalloc

import numpy as np
import pytest

from transformer_zoo.data.loader.order import MixtureOrder
from transformer_zoo.data.loader.order import shuffled
from transformer_zoo.errors import UserError


@pytest.mark.parametrize("number", [1, 2, 3, 17, 64, 1000, 4097])
def test_every_epoch_is_a_permutation(number):
  ranks = np.arange(3 * number)
  epochs = shuffled(ranks, number, seed=5, tasks=2).reshape(3, number)
  for epoch in epochs:
    assert sorted(epoch) == list(range(number))
  if number > 16:
    assert (epochs[0] != epochs[1]).any()
    assert (epochs[0] != np.arange(number)).any()


def test_order_depends_on_seed_and_task():
  ranks = np.arange(100)
  orders = {
    tuple(shuffled(ranks, 100, seed, task))
    for seed, task in [(0, 0), (1, 0), (0, 1)]
  }
  assert len(orders) == 3


def test_neighbours_are_spread():
  places = shuffled(np.arange(10_000), 10_000, seed=0, tasks=0)
  correlation = np.corrcoef(np.arange(10_000), places)[0, 1]
  assert abs(correlation) < 0.03
  steps = np.abs(np.diff(places))
  # A third of the range for a random permutation.
  assert 3200 < steps.mean() < 3470


def test_any_order_of_asking_gives_the_same():
  whole = shuffled(np.arange(500), 77, seed=3, tasks=1)
  some = np.array([499, 3, 250, 77])
  np.testing.assert_array_equal(shuffled(some, 77, 3, 1), whole[some])


@pytest.mark.parametrize(
  "rates", [(1, 1), (8551, 67349, 3668), (0.7, 0.2, 0.1), (1e-5, 1.0)]
)
def test_every_window_has_the_rates(rates):
  order = MixtureOrder(rates, seed=4)
  share = np.array(rates) / np.sum(rates)
  for start in (0, 12_345, 10**9):
    for number in (10, 1000, 50_000):
      tasks, _ = order(np.arange(start, start + number))
      counts = np.bincount(tasks, minlength=len(rates))
      assert np.abs(counts - share * number).max() < 2 + 1e-6 * number


@pytest.mark.parametrize("rates", [(2, 9), (3, 17), (2, 3, 11)])
def test_a_task_comes_again_after_its_share_of_a_cycle(rates):
  """At the end of a cycle and at the beginning of the next, too."""
  tasks, _ = MixtureOrder(rates, seed=4)(np.arange(5 * sum(rates)))
  for task, rate in enumerate(rates):
    gaps = np.diff(np.flatnonzero(tasks == task))
    assert np.abs(gaps - sum(rates) / rate).max() <= len(rates) - 0.5


def test_ranks_count_each_task_without_gap():
  order = MixtureOrder((3, 0, 5), seed=0)
  tasks, ranks = order(np.arange(1000))
  assert 1 not in tasks
  for task in (0, 2):
    mine = ranks[tasks == task]
    assert mine.tolist() == list(range(len(mine)))


@pytest.mark.parametrize("rates", [(0.0,), (1.0, -1.0), (np.nan, 1.0)])
def test_impossible_rates_are_refused(rates):
  with pytest.raises(UserError, match="cannot be mixed"):
    MixtureOrder(rates, seed=0)


def test_a_trillion_examples_need_no_table():
  number = 10**12
  ranks = 3 * number + np.arange(100_000) * 9_999_991
  tracemalloc.start()
  places = shuffled(ranks, number, seed=1, tasks=0)
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert peak < 500 * len(ranks)
  # Distinct, inside, and spread evenly.
  assert len(np.unique(places)) == len(places)
  assert places.min() >= 0 and places.max() < number
  shares = np.bincount(places * 10 // number, minlength=10) / len(places)
  np.testing.assert_allclose(shares, 0.1, atol=0.005)
  np.testing.assert_array_equal(
    shuffled(ranks[-7:], number, seed=1, tasks=0), places[-7:]
  )


@pytest.mark.parametrize(
  "rates", [(1, 3), (8551, 67349, 3668), (0.7, 0.2, 0.1)]
)
@pytest.mark.parametrize("places", [0, 1, 999, 10**6, 10**12 + 7])
def test_rates_are_exact_in_the_long_run(rates, places):
  order = MixtureOrder(rates, seed=4)
  counts = order.examples_before(places)
  assert counts.sum() == places
  expected = np.array(rates) / np.sum(rates) * places
  # Whole rates are exact but for one example, others to one in 2^20.
  slack = 0 if np.sum(rates) > 1.5 else places / 2**20
  assert np.abs(counts - expected).max() <= 1 + slack
  # The ranks that the next places get are these counts.
  tasks, ranks = order(places + np.arange(100_000))
  for task in range(len(rates)):
    assert ranks[tasks == task][0] == counts[task]
