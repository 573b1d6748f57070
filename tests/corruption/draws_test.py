"""Draws: the published generator, keys of their own, uniform choices."""

import collections
import math

import numpy as np
import pytest

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.draws import philox


@pytest.mark.parametrize(
  "word, expected",
  [
    (0x00000000, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (0xFFFFFFFF, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
  ],
)
def test_philox_is_the_published_one(word, expected):
  # Known answers of the Random123 library for philox4x32-10.
  counter = (np.full(1, word, np.uint64),) * 4
  words = philox(counter, (word, word))
  assert " ".join(f"{int(w[0]):08x}" for w in words) == expected


def test_an_example_draws_the_same_in_every_batch():
  indices = np.array([7, 0, 2**40, 3])
  together = Draws(5, indices)
  alone = [Draws(5, [index]) for index in indices]
  for draw in (
    lambda d: d.bits(5),
    lambda d: d.uniform(9),
    lambda d: d.integers(1000, 3),
    lambda d: d.subsets(np.full(d.batch_size, 9), np.full(d.batch_size, 4)),
    lambda d: d.permutations(np.full(d.batch_size, 6)),
    lambda d: d.branch().bits(3),
  ):
    expected = np.concatenate([draw(source) for source in alone])
    np.testing.assert_array_equal(draw(together), expected)


def test_calls_seeds_and_examples_differ():
  draws = Draws(0, np.arange(100))
  first, second = draws.bits(8), draws.bits(8)
  other = Draws(1, np.arange(100)).bits(8)
  high = Draws(2**32, np.arange(100)).bits(8)
  words = np.concatenate([first, second, other, high]).ravel().tolist()
  assert len(set(words)) == len(words)


def test_uniform_is_uniform():
  values = Draws(3, np.arange(1000)).uniform(100).ravel()
  assert values.dtype == np.float32
  assert 0 <= values.min() and values.max() < 1
  counts, _ = np.histogram(values, 20, (0, 1))
  chi_square = float(((counts - 5000) ** 2 / 5000).sum())
  assert chi_square < 43.8  # 99.9 % quantile at 19 degrees of freedom


def test_integers_stay_below_bounds_of_their_own():
  bounds = np.array([[1], [2], [1000]])
  values = Draws(0, np.arange(3)).integers(bounds, 500)
  assert values.min() == 0
  assert values.max(axis=1).tolist()[:2] == [0, 1]
  assert 950 < values[2].max() < 1000


def test_subsets_are_equally_likely():
  rows = 20_000
  chosen = Draws(1, np.arange(rows)).subsets(np.full(rows, 6), np.full(rows, 3))
  counts = collections.Counter(map(bytes, chosen))
  expected = rows / math.comb(6, 3)
  assert len(counts) == math.comb(6, 3)
  assert all(np.frombuffer(subset, bool).sum() == 3 for subset in counts)
  chi_square = sum((n - expected) ** 2 / expected for n in counts.values())
  assert chi_square < 43.8  # 19 degrees of freedom


def test_subsets_of_different_sizes():
  bounds, sizes = np.array([4, 9, 1, 5]), np.array([4, 3, 0, 1])
  chosen = Draws(2, np.arange(4)).subsets(bounds, sizes)
  assert chosen.shape == (4, 9)
  assert chosen.sum(axis=1).tolist() == sizes.tolist()
  for row, bound in zip(chosen, bounds, strict=True):
    assert not row[bound:].any()


def test_a_subset_knows_nothing_of_the_sizes_of_others():
  sizes = np.array([4, 0, 7, 1])
  together = Draws(2, np.arange(4)).subsets(sizes + 3, sizes)
  for row, size in enumerate(sizes):
    alone = Draws(2, [row]).subsets(np.array([size + 3]), np.array([size]))
    np.testing.assert_array_equal(together[row, : size + 3], alone[0])
  lengths = np.array([2, 9, 5])
  orders = Draws(2, np.arange(3)).permutations(lengths)
  for row, length in enumerate(lengths):
    alone = Draws(2, [row]).permutations(np.array([length]))
    np.testing.assert_array_equal(orders[row, :length], alone[0])


def test_a_branch_draws_apart():
  used, unused = Draws(0, [0, 1]), Draws(0, [0, 1])
  branch = used.branch()
  drawn = [branch.bits(4) for _ in range(5)]
  unused.branch()
  after = used.bits(4)
  np.testing.assert_array_equal(after, unused.bits(4))
  words = np.concatenate([*drawn, after, used.branch().bits(4)])
  assert len(np.unique(words)) == words.size
  with pytest.raises(ValueError, match="has no branches"):
    branch.branch()


def test_permutations_are_equally_likely_and_leave_the_rest():
  rows = 12_000
  orders = Draws(4, np.arange(rows)).permutations(np.full(rows, 3))
  counts = collections.Counter(map(tuple, orders.tolist()))
  assert len(counts) == 6
  chi_square = sum((n - rows / 6) ** 2 / (rows / 6) for n in counts.values())
  assert chi_square < 20.5  # 5 degrees of freedom
  short = Draws(4, np.arange(2)).permutations(np.array([2, 5]))
  assert sorted(short[0].tolist()) == [0, 1, 2, 3, 4]
  assert short[0, 2:].tolist() == [2, 3, 4]
