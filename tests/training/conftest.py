"""A small model, a packed batch, and how trees are compared."""

import jax
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters


@pytest.fixture(scope="session")
def make_small():
  """Returns a function that builds a prefix language model of one layer.

  Heads, vocabulary and feed-forward divide over up to 8 devices.
  """
  sizes = {
    "EMBED_DIM": 16,
    "MLP_DIM": 32,
    "NUM_HEADS": 8,
    "HEAD_DIM": 4,
    "NUM_DECODER_LAYERS": 1,
    "VOCAB_SIZE": 64,
  }
  return lambda **macros: tiny_models.build("prefix_lm", **sizes, **macros)[0]


@pytest.fixture(scope="session")
def packed_batch():
  """8 rows of 2 examples for it, and of 1 in the last; 36 tokens wide."""
  rng = np.random.default_rng(0)
  rows = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7])

  def draw(low, high):
    return [
      rng.integers(3, 64, rng.integers(low, high)).astype(np.int32)
      for _ in rows
    ]

  return converters.PrefixLanguageModel()(
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
