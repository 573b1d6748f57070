"""Relative position buckets and the bias made of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.modules.relative_bias import relative_position_bucket
from transformer_zoo.modules.relative_bias import RelativePositionBias

# First distance of each logarithmic bucket of T5's 32 buckets up to 128.
# Recorded from Mesh TensorFlow's formula as `transformers` has it; the live
# comparison is tests/oracles/t5_test.py.
BIDIRECTIONAL_STARTS = {
  8: 8, 9: 12, 10: 16, 11: 23, 12: 32, 13: 46, 14: 64, 15: 91,
}  # fmt: skip
CAUSAL_STARTS = {
  16: 16, 17: 19, 18: 21, 19: 24, 20: 27, 21: 31, 22: 35, 23: 40,
  24: 46, 25: 52, 26: 59, 27: 67, 28: 77, 29: 87, 30: 99, 31: 113,
}  # fmt: skip


def buckets(relative, bidirectional, num_buckets=32, max_distance=128):
  return np.asarray(
    relative_position_bucket(
      jnp.asarray(relative),
      bidirectional=bidirectional,
      num_buckets=num_buckets,
      max_distance=max_distance,
    )
  )


def expected(distances, starts):
  exact = min(starts)
  return [
    d if d < exact else max(b for b, s in starts.items() if s <= d)
    for d in distances
  ]


def test_bidirectional_buckets():
  distances = np.arange(1000)
  before = expected(distances, BIDIRECTIONAL_STARTS)
  np.testing.assert_array_equal(buckets(-distances, True), before)
  after = np.asarray(before[1:]) + 16
  np.testing.assert_array_equal(buckets(distances[1:], True), after)


def test_causal_buckets():
  distances = np.arange(1000)
  before = expected(distances, CAUSAL_STARTS)
  np.testing.assert_array_equal(buckets(-distances, False), before)
  # Keys after the query share the bucket of the query itself.
  np.testing.assert_array_equal(buckets(distances, False), 0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("num_buckets", [8, 32, 64])
@pytest.mark.parametrize("max_distance", [40, 128, 500])
def test_every_bucket_is_used_in_order(
  bidirectional, num_buckets, max_distance
):
  found = buckets(
    -np.arange(2 * max_distance), bidirectional, num_buckets, max_distance
  )
  per_sign = num_buckets // 2 if bidirectional else num_buckets
  assert (np.diff(found) >= 0).all()
  assert found[0] == 0 and found[-1] == per_sign - 1
  assert (found[max_distance:] == per_sign - 1).all()


def bias(table, query, key, bidirectional=False):
  module = RelativePositionBias(
    num_heads=table.shape[0], bidirectional=bidirectional
  )
  return module.apply(
    {"params": {"rel_embedding": table}}, jnp.asarray(query), jnp.asarray(key)
  )


def test_bias_is_the_entry_of_head_and_bucket():
  table = np.random.RandomState(0).standard_normal((3, 32)).astype(np.float32)
  y = np.asarray(bias(table, np.arange(4), np.arange(5), bidirectional=True))
  assert y.shape == (1, 3, 4, 5) and y.dtype == np.float32
  for query in range(4):
    for key in range(5):
      bucket = buckets([key - query], True)[0]
      np.testing.assert_array_equal(y[0, :, query, key], table[:, bucket])


def test_bias_of_one_position_is_that_row_of_the_whole():
  table = np.random.RandomState(0).standard_normal((3, 32)).astype(np.float32)
  whole = bias(table, np.arange(200), np.arange(200))
  row = bias(table, [150], np.arange(200))
  np.testing.assert_array_equal(whole[:, :, 150:151], row)


def test_table_is_labelled():
  module = RelativePositionBias(num_heads=3, bidirectional=True)
  positions = jnp.arange(2)
  table = module.init(jax.random.key(0), positions, positions)["params"][
    "rel_embedding"
  ]
  assert table.names == ("heads", "relpos_buckets")
  assert table.unbox().shape == (3, 32)
