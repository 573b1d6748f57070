"""Truncated distributions against their definitions; draws against them."""

import functools

import jax
import numpy as np
import pytest
import scipy.special

from tests import programs
from transformer_zoo.decoding import sampling
from transformer_zoo.decoding.options import DecodingOptions

# Probabilities of six tokens, no two alike.
PROBABILITIES = np.array([0.05, 0.4, 0.02, 0.25, 0.18, 0.1])
LOGITS = np.log(PROBABILITIES).astype(np.float32)


def exact(kept, temperature=1.0):
  """The distribution over the kept tokens."""
  weights = np.where(
    np.isin(np.arange(6), kept), PROBABILITIES ** (1 / temperature), 0.0
  )
  return weights / weights.sum()


# The information of the tokens is 3.00, 0.92, 3.91, 1.39, 1.71, 2.30 nats; 1.48
# are expected: 3 is nearest, then 4, 1, 5.
CASES = [
  ({"temperature": 1.0}, exact(range(6))),
  ({"temperature": 0.5}, exact(range(6), 0.5)),
  ({"temperature": 1.0, "top_k": 1}, exact([1])),
  ({"temperature": 2.0, "top_k": 3}, exact([1, 3, 4], 2.0)),
  ({"temperature": 1.0, "top_k": 100}, exact(range(6))),
  ({"temperature": 1.0, "top_p": 0.3}, exact([1])),
  ({"temperature": 1.0, "top_p": 0.66}, exact([1, 3, 4])),
  ({"temperature": 1.0, "top_p": 1.0}, exact(range(6))),
  ({"temperature": 1.0, "min_p": 0.4}, exact([1, 3, 4])),
  ({"temperature": 0.5, "min_p": 0.3}, exact([1, 3], 0.5)),
  ({"temperature": 1.0, "typical_p": 0.2}, exact([3])),
  ({"temperature": 1.0, "typical_p": 0.4}, exact([3, 4])),
  ({"temperature": 1.0, "typical_p": 0.9}, exact([1, 3, 4, 5])),
  # 0.4, 0.25, 0.18 are left of the first, and 0.48, 0.30, 0.22 in them.
  ({"temperature": 1.0, "top_k": 3, "top_p": 0.7}, exact([1, 3])),
]


@pytest.mark.parametrize(("options", "expected"), CASES)
def test_distribution(options, expected):
  logits = programs.run(
    sampling.truncate, LOGITS[None, None], DecodingOptions(**options)
  )
  found = scipy.special.softmax(np.asarray(logits)[0, 0])
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
  "keep",
  [
    lambda x: sampling.keep_top_k(x, 2),
    lambda x: sampling.keep_top_p(x, 0.7),
    lambda x: sampling.keep_min_p(x, 0.95),
    lambda x: sampling.keep_typical(x, 0.7),
  ],
)
def test_what_is_impossible_stays_so(keep):
  logits = np.array([[[-np.inf, 1.0, 0.9, -np.inf, 0.8]]], np.float32)
  kept = np.isfinite(jax.jit(keep)(logits))[0, 0]
  assert not kept[0] and not kept[3] and kept.any()


DRAWS = 20_000


# A draw is of the logits that are left, which are above: one case of a
# temperature, of one option and of two.
@pytest.mark.parametrize(
  ("options", "expected"), [CASES[i] for i in (1, 12, 13)]
)
def test_draws_have_the_distribution(options, expected):
  options = DecodingOptions(**options, num_return=10, seed=3)
  logits = np.broadcast_to(LOGITS, (DRAWS // 10, 10, 6))
  drawn = programs.run(
    sampling.draw, logits, options, np.arange(DRAWS // 10), np.asarray(5)
  )
  counts = np.bincount(np.asarray(drawn).reshape(-1), minlength=6)
  assert not counts[expected == 0].any()
  possible = expected > 0
  chi_square = np.sum(
    (counts - DRAWS * expected)[possible] ** 2 / (DRAWS * expected)[possible]
  )
  # 5 degrees of freedom exceed 25.7 once in 10,000; the seed is fixed.
  assert chi_square < 25.7


def test_draws_at_other_positions_and_of_other_examples_are_independent():
  options = DecodingOptions(temperature=1.0, num_return=2)
  logits = np.zeros((3000, 2, 2), np.float32)
  drawn = [
    np.asarray(
      programs.run(
        sampling.draw, logits, options, np.arange(3000), np.asarray(position)
      )
    )
    for position in (0, 1)
  ]
  for one, other in (
    (drawn[0], drawn[1]),
    (drawn[0][:, 0], drawn[0][:, 1]),
    (drawn[0][:-1], drawn[0][1:]),
  ):
    assert abs(np.mean(one == other) - 0.5) < 0.04


@pytest.mark.parametrize("name", ["top_p", "typical_p"])
def test_probability_one_keeps_every_token(name):
  """However the sum of many small probabilities is rounded."""
  logits = 4 * np.random.RandomState(4).standard_normal((4, 1, 32_128))
  kept = programs.run(
    sampling.truncate,
    logits.astype(np.float32),
    DecodingOptions(temperature=1.0, **{name: 1.0}),
  )
  assert np.isfinite(kept).all()


def test_all_bits_of_a_seed_count():
  """In the key; that other keys are other draws is JAX's."""

  @functools.partial(jax.jit, static_argnums=0)
  def keys(seeds):
    return [jax.random.key_data(sampling._key(seed)) for seed in seeds]

  seeds = (5, 5 + 2**32, 5 + 2**33, -5, 2**32 - 5)
  found = {np.asarray(key).tobytes() for key in keys(seeds)}
  assert len(found) == len(seeds)
  options = [DecodingOptions(temperature=1.0, seed=seed) for seed in seeds[:2]]
  logits = np.zeros((20, 1, 100), np.float32)
  one, other = (
    programs.run(sampling.draw, logits, each, np.arange(20), np.asarray(0))
    for each in options
  )
  assert np.any(np.asarray(one) != np.asarray(other))
