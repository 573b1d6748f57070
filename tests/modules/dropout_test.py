"""Dropout: what it draws, scales and refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo.modules.dropout import Dropout


def apply(dropout, x, seed=0, deterministic=False):
  return np.asarray(
    programs.apply(
      dropout,
      {},
      x,
      deterministic=deterministic,
      rngs={"dropout": jax.random.key(seed)},
    )
  )


def test_one_draw_is_shared_along_the_length():
  y = apply(Dropout(rate=0.5), np.ones((4, 6, 32), np.float32))
  np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))
  assert len({row.tobytes() for row in y[:, 0]}) == 4


def test_broadcast_dims_choose_the_shared_axes():
  x = np.ones((4, 6, 32), np.float32)
  apart = apply(Dropout(rate=0.5, broadcast_dims=()), x)
  assert (apart != apart[:, :1]).any()
  rows = apply(Dropout(rate=0.5, broadcast_dims=(0,)), x)
  np.testing.assert_array_equal(rows, np.broadcast_to(rows[:1], rows.shape))
  assert (rows != rows[:, :1]).any()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_kept_features_are_scaled_so_that_the_expectation_stays(rate):
  y = apply(Dropout(rate=rate), np.ones((400, 2, 250), np.float32))
  values = np.unique(y)
  np.testing.assert_allclose(values, [0.0, 1.0 / (1.0 - rate)], rtol=1e-6)
  # 100,000 independent draws: five standard deviations of their mean.
  deviation = np.sqrt(rate / (1.0 - rate) / 100_000)
  assert abs(y.mean() - 1.0) < 5 * deviation


def test_deterministic_and_rate_zero_are_the_identity_and_need_no_key():
  x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
  for dropout, deterministic in ((Dropout(0.5), True), (Dropout(0.0), False)):
    y = dropout.apply({}, x, deterministic=deterministic)
    np.testing.assert_array_equal(y, x)


def test_keeps_the_dtype_of_its_input():
  y = apply(Dropout(0.1), np.ones((2, 3, 4), jnp.bfloat16))
  assert y.dtype == jnp.bfloat16


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.5])
def test_a_rate_that_is_no_probability_is_refused(rate):
  with pytest.raises(
    ValueError, match=rf"dropout rate {rate} is not in \[0, 1"
  ):
    Dropout(rate=rate)
