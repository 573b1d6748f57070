"""Rewrites against the goldens of t5's `preprocessors_test.py`."""

import numpy as np
import pytest

from transformer_zoo.corruption import rewrites
from transformer_zoo.errors import UserError

TOKENS = np.arange(10, 16, dtype=np.int32)
MASK = np.array([1, 1, 0, 0, 1, 0], bool)
SENTINELS = np.arange(999, 899, -1)  # a vocabulary of 1000 ids


@pytest.mark.parametrize(
  "rewrite, expected",
  [
    ("noise_span_to_unique_sentinel", [999, 12, 13, 998, 15]),
    ("nonnoise_span_to_unique_sentinel", [10, 11, 999, 14, 998]),
    ("noise_span_to_sentinel", [999, 12, 13, 999, 15]),
    ("nonnoise_span_to_sentinel", [10, 11, 999, 14, 999]),
    ("noise_token_to_sentinel", [999, 999, 12, 13, 999, 15]),
  ],
)
def test_sentinel_goldens(rewrite, expected):
  actual = getattr(rewrites, rewrite)(TOKENS, MASK, SENTINELS)
  assert actual.tolist() == expected
  assert actual.dtype == np.int32


def test_drop_goldens():
  assert rewrites.drop_noise_tokens(TOKENS, MASK).tolist() == [12, 13, 15]
  assert rewrites.drop_nonnoise_tokens(TOKENS, MASK).tolist() == [10, 11, 14]


def test_arguments_are_left_alone():
  tokens, mask = TOKENS.copy(), MASK.copy()
  rewrites.noise_span_to_unique_sentinel(tokens, mask, SENTINELS)
  rewrites.noise_span_to_sentinel(tokens, mask, SENTINELS)
  np.testing.assert_array_equal(tokens, TOKENS)
  np.testing.assert_array_equal(mask, MASK)


@pytest.mark.parametrize("noise", [False, True])
def test_all_or_nothing(noise):
  mask = np.full(6, noise)
  actual = rewrites.noise_span_to_unique_sentinel(TOKENS, mask, SENTINELS)
  assert actual.tolist() == ([999] if noise else TOKENS.tolist())


def test_overrun_of_sentinels_is_refused():
  with pytest.raises(
    UserError, match="6 tokens has 2 noise spans.* has 1 sent"
  ):
    rewrites.noise_span_to_unique_sentinel(TOKENS, MASK, SENTINELS[:1])
