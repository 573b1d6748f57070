"""Noise masks: exact counts, and draws spread as the definition says."""

import math

import numpy as np
import pytest

from transformer_zoo.corruption import Everything
from transformer_zoo.corruption import FixedNumber
from transformer_zoo.corruption import Fragment
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption import RegularSpans
from transformer_zoo.corruption import WordSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError


def _spans(mask):
  """Returns the lengths of the runs of True."""
  edges = np.flatnonzero(np.diff(np.concatenate([[0], mask, [0]])))
  return edges[1::2] - edges[::2]


def _draw(mask, length, rows, seed=0):
  return mask(Draws(seed, np.arange(rows)), length)


@pytest.mark.parametrize(
  "length, density, mean, expected",
  [
    (568, 0.15, 3.0, (85, 28)),
    (2, 0.15, 3.0, (1, 1)),
    (2, 0.99, 3.0, (1, 1)),
    (10, 0.15, 1.0, (2, 2)),
    (10, 0.9, 1.0, (9, 1)),
    # 8 / 3 and 10 / 4: to the nearest, halves to even.
    (16, 0.5, 3.0, (8, 3)),
    (20, 0.5, 4.0, (10, 2)),
  ],
)
def test_counts_of_random_spans(length, density, mean, expected):
  assert RandomSpans(density, mean).counts(length) == expected


@pytest.mark.parametrize("density, mean", [(0.15, 3), (0.5, 3), (0.9, 1)])
@pytest.mark.parametrize("length", [2, 3, 17, 568])
def test_random_spans_have_exact_counts_and_end_in_noise(length, density, mean):
  noise = RandomSpans(density, mean)
  num_noise, num_spans = noise.counts(length)
  masks = _draw(noise, length, 20)
  assert masks.shape == (20, length) and masks.dtype == bool
  for mask in masks:
    assert mask.sum() == num_noise
    assert len(_spans(mask)) == num_spans
    assert not mask[0] and mask[-1]


@pytest.mark.parametrize("length", [0, 1])
def test_nothing_to_corrupt_in_less_than_two_tokens(length):
  assert _draw(RandomSpans(), length, 3).tolist() == [[False] * length] * 3


def test_random_spans_are_uniform_over_both_segmentations():
  # 12 tokens, 6 of noise, in 3 spans: 10 x 10 masks, each expected 1000 times.
  masks = _draw(RandomSpans(0.5, 2), 12, 100_000)
  _, counts = np.unique(masks, axis=0, return_counts=True)
  assert len(counts) == math.comb(5, 2) ** 2
  chi_square = ((counts - 1000) ** 2 / 1000).sum()
  assert chi_square < 148.2  # 99.9 % quantile at 99 degrees of freedom


def test_span_lengths_follow_the_composition_law():
  # P(first of s parts of n items = k) = C(n - k - 1, s - 2) / C(n - 1, s - 1).
  masks = _draw(RandomSpans(), 568, 4000, seed=2)  # 112,000 spans
  lengths = np.concatenate([_spans(mask) for mask in masks])
  assert lengths.mean() == pytest.approx(85 / 28)
  for k in range(1, 8):
    expected = math.comb(84 - k, 26) / math.comb(84, 27)
    assert np.mean(lengths == k) == pytest.approx(expected, abs=0.01)


def test_random_roll_makes_every_place_noise_equally_often():
  noise = RandomSpans(0.25, 2, random_roll=True)
  masks = _draw(noise, 16, 100_000)
  assert set(masks.sum(axis=1).tolist()) == {4}
  np.testing.assert_allclose(masks.mean(axis=0), 0.25, atol=0.006)
  assert masks[:, 0].any() and not masks[:, -1].all()


def test_iid_rate_and_number_of_spans():
  rows, length, rate = 4000, 511, 0.15
  masks = _draw(Iid(rate), length, rows, seed=3)
  assert masks.mean() == pytest.approx(rate, abs=0.001)
  np.testing.assert_allclose(masks.mean(axis=0), rate, atol=0.025)
  opens = (masks[:, 1:] & ~masks[:, :-1]).sum(axis=1) + masks[:, 0]
  spans = rate + (length - 1) * rate * (1 - rate)
  assert opens.mean() == pytest.approx(spans, abs=0.35)
  # Span lengths are geometric: neighbours are independent.
  lengths = np.concatenate([_spans(mask) for mask in masks])
  for k in range(1, 5):
    share = rate ** (k - 1) * (1 - rate)
    assert np.mean(lengths == k) == pytest.approx(share, abs=0.004)


def test_regular_spans():
  masks = _draw(RegularSpans(0.25, 2, 2), 64, 500)
  for mask in masks:
    starts = np.flatnonzero(mask[1:] & ~mask[:-1]) + 1
    assert set(np.diff(starts).tolist()) == {8}
    assert set(_spans(mask)[1:-1].tolist()) == {2}


def test_regular_spans_have_all_lengths_and_offsets():
  masks = _draw(RegularSpans(0.2), 64, 100_000)
  # Every place is as often noise as the others, the ends too.
  np.testing.assert_allclose(masks.mean(axis=0), 0.2, atol=0.006)
  # Lengths 1 to 5 are equally likely; a row of 64 has a whole span of each.
  opens = masks & ~np.pad(masks, ((0, 0), (1, 0)))[:, :-1]
  first = np.argmax(opens[:, 1:32], axis=1) + 1
  within = np.arange(64)
  ended = ~masks & (within > first[:, None])
  lengths = np.argmax(ended, axis=1) - first
  shares = np.bincount(lengths, minlength=6)[1:] / 100_000
  np.testing.assert_allclose(shares, 0.2, atol=0.006)


@pytest.mark.parametrize("density, shortest", [(0.5, 1), (0.25, 5)])
def test_random_prefix_is_uniform(density, shortest):
  masks = _draw(RandomPrefix(density), 10, 100_000)
  sizes = masks.sum(axis=1)
  assert (np.sort(masks, axis=1)[:, ::-1] == masks).all()
  values, counts = np.unique(sizes, return_counts=True)
  # t5 rounds half to even: round(0.5 * 9) = 4.
  shortest = max(1, round((1 - 2 * density) * 9))
  assert values.tolist() == list(range(shortest, 10))
  np.testing.assert_allclose(counts / 100_000, 1 / len(values), atol=0.006)


def test_fragment_of_mass():
  masks = _draw(Fragment(), 20, 100_000)
  assert set(masks.sum(axis=1).tolist()) == {10}
  assert all(len(_spans(mask)) == 1 for mask in masks[:200])
  starts = masks.argmax(axis=1)
  # 0.2, and 0.6 of a uniform place among 11.
  expected = np.full(11, 0.6 / 11)
  expected[[0, 10]] += 0.2
  shares = np.bincount(starts) / 100_000
  np.testing.assert_allclose(shares, expected, atol=0.005)


def test_everything():
  assert _draw(Everything(), 4, 2).all()


@pytest.mark.parametrize(
  "noise",
  [
    Iid(0.3),
    RandomSpans(),
    RandomSpans(random_roll=True),
    RegularSpans(),
    RandomPrefix(),
    Fragment(),
    FixedNumber(),
    WordSpans(),
  ],
)
def test_a_row_is_a_function_of_its_key(noise):
  together = noise(Draws(9, np.array([4, 11])), 40)
  alone = noise(Draws(9, np.array([11])), 40)
  np.testing.assert_array_equal(together[1], alone[0])
  assert (noise(Draws(8, np.arange(20)), 40) != together[0]).any()


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda: Iid(0.0), "Iid.noise_density is 0.0; .* above 0 and at most 1"),
    (lambda: Iid("0.1"), "Iid.noise_density is '0.1'"),
    (lambda: RandomPrefix(0.6), "is 0.6; .* at most 0.5"),
    (lambda: RandomSpans(0.15, 0.5), "span_length is 0.5; .* at least 1"),
    (lambda: RegularSpans(0.1, 3, 2), "span lengths from 3 to 2"),
    (lambda: Fragment(0.5, 0.7, 0.7), r"chances \(0.7, 0.7\)"),
    (lambda: WordSpans(0.1, ()), "weights is \\(\\); give non-negative"),
  ],
)
def test_fields_are_checked(make, message):
  with pytest.raises(UserError, match=message):
    make()
