"""Rewrites against the goldens of t5's `preprocessors_test.py`."""

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.rewrites import noise_rewrites
from transformer_zoo.errors import UserError

# A row and its mask, and another row with other spans beside it.
TOKENS = np.array([np.arange(10, 16), np.arange(20, 26)], np.int32)
MASK = np.array([[1, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]], bool)
VOCABULARY = vocabularies.t5(100, 1000)


def _rewrite(name, tokens=TOKENS, mask=MASK, vocabulary=VOCABULARY, seed=0):
  draws = Draws(seed, np.arange(len(tokens)))
  ragged = noise_rewrites.find(name)(tokens, mask, draws, vocabulary)
  assert ragged.values.dtype == np.int32
  return [row.tolist() for row in ragged.rows()]


@pytest.mark.parametrize(
  "name, expected",
  [
    ("noise_span_to_unique_sentinel", [999, 12, 13, 998, 15]),
    ("nonnoise_span_to_unique_sentinel", [10, 11, 999, 14, 998]),
    ("noise_span_to_sentinel", [999, 12, 13, 999, 15]),
    ("nonnoise_span_to_sentinel", [10, 11, 999, 14, 999]),
    ("noise_token_to_sentinel", [999, 999, 12, 13, 999, 15]),
    ("drop_noise_tokens", [12, 13, 15]),
    ("drop_nonnoise_tokens", [10, 11, 14]),
    ("keep", [10, 11, 12, 13, 14, 15]),
    ("nothing", []),
  ],
)
def test_goldens(name, expected):
  first, second = _rewrite(name)
  assert first == expected
  assert [second] == _rewrite(name, TOKENS[1:], MASK[1:])


@pytest.mark.parametrize("name", sorted(noise_rewrites.REWRITES))
def test_arguments_are_left_alone(name):
  tokens, mask = TOKENS.copy(), MASK.copy()
  _rewrite(name, tokens, mask)
  np.testing.assert_array_equal(tokens, TOKENS)
  np.testing.assert_array_equal(mask, MASK)


@pytest.mark.parametrize("noise", [False, True])
def test_all_or_nothing(noise):
  actual = _rewrite(
    "noise_span_to_unique_sentinel", mask=np.full((2, 6), noise)
  )
  assert actual[0] == ([999] if noise else TOKENS[0].tolist())


def _large(rows=200, length=500):
  tokens = np.tile(np.arange(length, dtype=np.int32) + 3, (rows, 1))
  mask = np.tile(np.arange(length) % 2 == 0, (rows, 1))
  return tokens, mask


def test_random_tokens_are_uniform_and_never_special():
  tokens, mask = _large()
  rewritten = np.array(_rewrite("noise_token_to_random_token", tokens, mask))
  np.testing.assert_array_equal(rewritten[~mask], tokens[~mask])
  noise = rewritten[mask]
  assert noise.min() == 3 and noise.max() == 999
  assert noise.mean() == pytest.approx(501, abs=6)


def test_bert_style_noise_is_a_tenth_random():
  tokens, mask = _large()
  name = "noise_token_to_random_token_or_sentinel"
  rewritten = np.array(_rewrite(name, tokens, mask))
  np.testing.assert_array_equal(rewritten[~mask], tokens[~mask])
  # A random token is a sentinel by chance once in a thousand.
  assert np.mean(rewritten[mask] == 999) == pytest.approx(0.9, abs=0.006)


def test_gathered_tokens_are_those_of_the_row():
  tokens, mask = _large(rows=50)
  tokens[1:] += 600
  name = "noise_token_to_gathered_token"
  rewritten = np.array(_rewrite(name, tokens, mask))
  np.testing.assert_array_equal(rewritten[~mask], tokens[~mask])
  assert rewritten[0].max() < 503 <= 603 <= rewritten[1:].min()


def test_permuted_tokens_stay_among_the_places_of_noise():
  tokens, mask = _large(rows=3)
  mask[1] = False
  rewritten = np.array(_rewrite("permute_noise_tokens", tokens, mask))
  np.testing.assert_array_equal(rewritten[~mask], tokens[~mask])
  for row in range(3):
    assert sorted(rewritten[row][mask[row]]) == tokens[row][mask[row]].tolist()
  assert (rewritten[0] != tokens[0]).sum() > 200
  assert rewritten[0].tolist() != rewritten[2].tolist()


def test_overrun_of_sentinels_is_refused():
  few = vocabularies.t5(1, 1000)
  with pytest.raises(
    UserError, match="6 tokens has 2 noise spans.* has 1 sent"
  ):
    _rewrite("noise_span_to_unique_sentinel", vocabulary=few)


def test_an_unknown_rewrite_is_refused():
  with pytest.raises(UserError, match="'keeep'; did you mean 'keep'"):
    noise_rewrites.find("keeep")
