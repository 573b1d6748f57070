"""Noise masks: exact counts, and draws spread as the definition says."""

import math

import numpy as np
import pytest

from transformer_zoo.corruption import noise_masks


def _spans(mask):
  """Returns the lengths of the runs of True."""
  edges = np.flatnonzero(np.diff(np.concatenate([[0], mask, [0]])))
  return edges[1::2] - edges[::2]


@pytest.mark.parametrize(
  "length, density, mean, expected",
  [
    (568, 0.15, 3.0, (85, 28)),
    (2, 0.15, 3.0, (1, 1)),
    (2, 0.99, 3.0, (1, 1)),
    (10, 0.15, 1.0, (2, 2)),
    (10, 0.9, 1.0, (9, 1)),
  ],
)
def test_count_spans(length, density, mean, expected):
  assert noise_masks.count_spans(length, density, mean) == expected


@pytest.mark.parametrize("density, mean", [(0.15, 3), (0.5, 3), (0.9, 1)])
@pytest.mark.parametrize("length", [2, 3, 17, 568])
def test_random_spans_have_exact_counts_and_end_in_noise(length, density, mean):
  rng = np.random.default_rng(0)
  num_noise, num_spans = noise_masks.count_spans(length, density, mean)
  for _ in range(20):
    mask = noise_masks.random_spans(length, density, mean, rng)
    assert mask.shape == (length,) and mask.dtype == bool
    assert mask.sum() == num_noise
    assert len(_spans(mask)) == num_spans
    assert not mask[0] and mask[-1]


@pytest.mark.parametrize("length", [0, 1])
def test_nothing_to_corrupt_in_less_than_two_tokens(length):
  mask = noise_masks.random_spans(length, 0.15, 3, np.random.default_rng(0))
  assert mask.tolist() == [False] * length


def test_segmentation_is_uniform_over_compositions():
  # 6 items in 3 parts: 10 compositions, each expected 600 times.
  rng = np.random.default_rng(1)
  seen = {}
  for _ in range(6000):
    parts = tuple(noise_masks.random_segmentation(6, 3, rng).tolist())
    seen[parts] = seen.get(parts, 0) + 1
  assert len(seen) == math.comb(5, 2)
  assert all(sum(parts) == 6 and min(parts) >= 1 for parts in seen)
  chi_square = sum((count - 600) ** 2 / 600 for count in seen.values())
  assert chi_square < 27.9  # 99.9 % quantile at 9 degrees of freedom


def test_span_lengths_follow_the_composition_law():
  # P(first of s parts of n items = k) = C(n - k - 1, s - 2) / C(n - 1, s - 1).
  rng = np.random.default_rng(2)
  draws = 2000
  lengths = np.concatenate(
    [
      _spans(noise_masks.random_spans(568, 0.15, 3.0, rng))
      for _ in range(draws)
    ]
  )
  assert lengths.mean() == pytest.approx(85 / 28)
  for k in range(1, 8):
    expected = math.comb(84 - k, 26) / math.comb(84, 27)
    assert np.mean(lengths == k) == pytest.approx(expected, abs=0.01)


def test_iid_rate_and_number_of_spans():
  rng = np.random.default_rng(3)
  masks = [noise_masks.iid(511, 0.15, rng) for _ in range(2000)]
  assert np.mean(masks) == pytest.approx(0.15, abs=0.002)
  spans = np.mean([len(_spans(mask)) for mask in masks])
  assert spans == pytest.approx(511 * 0.15 * 0.85, abs=1)


def test_masks_are_functions_of_the_generator_state():
  def draw(seed):
    rng = np.random.Generator(np.random.Philox(key=(seed, 5)))
    return noise_masks.random_spans(568, 0.15, 3.0, rng)

  np.testing.assert_array_equal(draw(0), draw(0))
  assert (draw(0) != draw(1)).any()
