"""Relative position buckets and the bias made of them."""

import jax
import numpy as np
import pytest

from tests import programs
from transformer_zoo.errors import UserError
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions.relative_bias import Alibi
from transformer_zoo.modules.positions.relative_bias import alibi_slopes
from transformer_zoo.modules.positions.relative_bias import (
  relative_position_bucket,
)
from transformer_zoo.modules.positions.relative_bias import RelativePositionBias

# First distance of each logarithmic bucket of T5's 32 buckets up to 128.
# Recorded from Mesh TensorFlow's formula as `transformers` has it; the live
# comparison is tests/oracles/pytorch/t5_test.py.
BIDIRECTIONAL_STARTS = {
  8: 8, 9: 12, 10: 16, 11: 23, 12: 32, 13: 46, 14: 64, 15: 91,
}  # fmt: skip
CAUSAL_STARTS = {
  16: 16, 17: 19, 18: 21, 19: 24, 20: 27, 21: 31, 22: 35, 23: 40,
  24: 46, 25: 52, 26: 59, 27: 67, 28: 77, 29: 87, 30: 99, 31: 113,
}  # fmt: skip


def buckets(relative, bidirectional, num_buckets=32, max_distance=128):
  return np.asarray(
    programs.run(
      relative_position_bucket,
      np.asarray(relative),
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
  positions = Positions(np.asarray(query)[None], np.asarray(key)[None])
  return np.asarray(
    programs.apply(module, {"params": {"rel_embedding": table}}, positions)
  )


def test_bias_is_the_entry_of_head_and_bucket():
  table = np.random.RandomState(0).standard_normal((3, 32)).astype(np.float32)
  y = np.asarray(bias(table, np.arange(4), np.arange(5), bidirectional=True))
  assert y.shape == (1, 3, 4, 5) and y.dtype == np.float32
  by_distance = buckets(np.arange(-3, 5), True)
  for query in range(4):
    for key in range(5):
      bucket = by_distance[key - query + 3]
      np.testing.assert_array_equal(y[0, :, query, key], table[:, bucket])


def test_bias_of_one_position_is_that_row_of_the_whole():
  table = np.random.RandomState(0).standard_normal((3, 32)).astype(np.float32)
  whole = bias(table, np.arange(200), np.arange(200))
  row = bias(table, [150], np.arange(200))
  np.testing.assert_array_equal(whole[:, :, 150:151], row)


def test_table_is_labelled():
  module = RelativePositionBias(num_heads=3, bidirectional=True)
  params = jax.eval_shape(
    module.init, jax.random.key(0), Positions.of_length(2)
  )["params"]
  table = params["rel_embedding"]
  assert table.names == ("heads", "relpos_buckets")
  assert table.unbox().shape == (3, 32)


def test_rows_with_positions_of_their_own():
  table = np.random.RandomState(0).standard_normal((3, 32)).astype(np.float32)
  module = RelativePositionBias(num_heads=3, bidirectional=True)
  query_BL = np.array([[3], [7]])
  key_BM = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
  variables = {"params": {"rel_embedding": table}}
  rows = np.asarray(
    programs.apply(module, variables, Positions(query_BL, key_BM))
  )
  assert rows.shape == (2, 3, 1, 4)
  for row in range(2):
    one = Positions(query_BL[row : row + 1], key_BM[row : row + 1])
    alone = np.asarray(programs.apply(module, variables, one))
    np.testing.assert_array_equal(rows[row], alone[0])


@pytest.mark.parametrize(
  ("num_heads", "expected"),
  [
    (8, [2.0**-i for i in range(1, 9)]),
    (4, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]),
    # Between powers of two: those of the power below, then every second one of
    # the power above.
    (6, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]),
    (1, [2.0**-8]),
  ],
)
def test_alibi_slopes(num_heads, expected):
  np.testing.assert_allclose(alibi_slopes(num_heads), expected, rtol=1e-6)


def test_alibi_is_the_slope_times_the_distance():
  y = programs.apply(Alibi(num_heads=2), {}, Positions.of_length(3))
  y = np.asarray(y)
  slopes = [2.0**-4, 2.0**-8]
  for head, slope in enumerate(slopes):
    np.testing.assert_allclose(
      y[0, head], -slope * np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    )


def test_biases_depend_on_distances_alone():
  table = np.random.RandomState(0).standard_normal((2, 32)).astype(np.float32)
  here = Positions.of_length(40)
  there = Positions(here.query_1L + 1000, here.key_1M + 1000)
  for module, variables in (
    (Alibi(num_heads=2), {}),
    (
      RelativePositionBias(num_heads=2, bidirectional=True),
      {"params": {"rel_embedding": table}},
    ),
  ):
    np.testing.assert_array_equal(
      programs.apply(module, variables, here),
      programs.apply(module, variables, there),
    )


@pytest.mark.parametrize(
  ("settings", "exact"),
  [
    ({"num_buckets": 3, "bidirectional": True}, 0),
    ({"num_buckets": 1, "bidirectional": False}, 0),
    ({"max_distance": 8, "bidirectional": True}, 8),
    ({"max_distance": 16, "bidirectional": None}, 16),
    ({"num_buckets": 2, "bidirectional": None}, 0),
    ({"max_distance": 16, "bidirectional": False}, 16),
  ],
)
def test_buckets_that_cannot_be_are_refused(settings, exact):
  with pytest.raises(
    UserError, match=f"; {exact} buckets on a side hold single distances"
  ):
    RelativePositionBias(num_heads=2, **settings)
