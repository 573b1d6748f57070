"""A packed batch, and how trees are compared."""

import jax
import numpy as np
import pytest

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters


@pytest.fixture(scope="session")
def packed_batch():
  """8 rows of 2 examples, and of 1 in the last; 24 and 12 tokens wide."""
  rng = np.random.default_rng(0)
  rows = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7])

  def draw(low, high):
    return [
      rng.integers(3, 64, rng.integers(low, high)).astype(np.int32)
      for _ in rows
    ]

  return converters.EncoderDecoder()(
    {"inputs": Ragged.of(draw(5, 13)), "targets": Ragged.of(draw(2, 7))},
    rows,
    num_rows=8,
    lengths={"inputs": 24, "targets": 12},
    packing=True,
    pad_id=0,
  )


@pytest.fixture
def assert_close():
  """Returns a function that compares trees, relative to each leaf's maximum."""

  def check(actual, expected, tolerance=1e-5):
    for (path, a), b in zip(
      jax.tree_util.tree_leaves_with_path(actual),
      jax.tree.leaves(expected),
      strict=True,
    ):
      a, b = np.asarray(a), np.asarray(b)
      scale = max(np.max(np.abs(b)), 1e-30)
      difference = np.max(np.abs(a - b)) / scale
      assert difference < tolerance, (jax.tree_util.keystr(path), difference)

  return check
