import collections

import numpy as np
import pytest

from transformer_zoo.data.loader.length_buckets import BucketPlan
from transformer_zoo.data.loader.length_buckets import buckets
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 64, "targets": 16}
GIVEN = (
  {"inputs": 8, "targets": 4, "batch_size": 32},
  {"inputs": 24, "targets": 16, "batch_size": 16},
)


def draw_lengths(places):
  """Lengths of an example, from its place."""
  rng = np.random.default_rng(0)
  table = np.stack([rng.integers(1, 65, 997), rng.integers(1, 17, 997)], axis=1)
  return table[places % 997].astype(np.int32)


def plan(seed=0):
  return BucketPlan(
    draw_lengths, buckets(GIVEN, LENGTHS, 8), seed, list(LENGTHS)
  )


def test_every_example_comes_once_and_in_the_first_bucket_that_holds_it():
  found, steps = plan(), 3000
  seen = collections.Counter()
  for step in range(steps):
    bucket, places = found(step)
    assert len(places) == bucket.batch_size
    limits = list(bucket.lengths.values())
    lengths = draw_lengths(places)
    assert (lengths <= limits).all()
    for narrower in GIVEN:
      if narrower["inputs"] < limits[0]:
        fits = lengths <= [narrower["inputs"], narrower["targets"]]
        assert not fits.all(axis=1).any()
    seen.update(places.tolist())
  assert max(seen.values()) == 1
  used = found.used(steps)
  expected = {*range(used.end), *used.besides.tolist()}
  assert seen.keys() == expected - {*used.except_for.tolist()}
  # No bucket makes an example wait longer than its own batch takes to fill.
  assert len(used.except_for) < 32 + 16 + 8
  assert sum(seen.values()) > used.end * 0.99


def test_batches_are_shuffled_by_the_seed():
  sizes = [
    tuple(p(step)[0].batch_size for step in range(200))
    for p in (plan(0), plan(0), plan(1))
  ]
  assert sizes[0] == sizes[1] != sizes[2]
  assert set(sizes[0]) == {8, 16, 32}


def test_any_step_can_be_asked_for():
  in_turn = plan()
  whole = [in_turn(step)[1] for step in range(300)]
  other = plan()
  for step in (299, 17, 18, 250, 0):
    np.testing.assert_array_equal(other(step)[1], whole[step])


@pytest.mark.parametrize(
  "given, message",
  [
    (
      ({"inputs": 8, "batch_size": 4},),
      "must give 'inputs', 'targets', 'batch_size' and nothing else",
    ),
    (
      ({"inputs": 80, "targets": 4, "batch_size": 4},),
      "has 'inputs' 80; it must be a whole number of 1 or more, at most 64 as",
    ),
    (
      ({"inputs": 8, "targets": 4, "batch_size": 0},),
      "has 'batch_size' 0; it must be a whole number of 1 or more",
    ),
    (GIVEN[::-1], "gets no example: all that fit it are in the one of"),
  ],
)
def test_impossible_buckets_are_refused(given, message):
  with pytest.raises(UserError, match=message):
    buckets(given, LENGTHS, 8)
