import numpy as np
import pytest

from transformer_zoo.data.loader.packing import OneEach
from transformer_zoo.data.loader.packing import pack
from transformer_zoo.data.loader.packing import RowPlan
from transformer_zoo.data.loader.packing import WINDOW


def draw_lengths(places):
  """Lengths that are a pure function of the place."""
  inputs = 2 + places * 7919 % 30
  targets = 1 + places * 104729 % 9
  return np.stack([inputs, targets], axis=-1)


def test_rows_hold_what_they_can():
  lengths = draw_lengths(np.arange(8 * 300)).reshape(8, 300, 2)
  rows, num_rows = pack(lengths, (64, 20))
  for window in range(8):
    assert set(rows[window]) == set(range(num_rows[window]))
    for feature, capacity in enumerate((64, 20)):
      used = np.bincount(rows[window], weights=lengths[window, :, feature])
      assert used.max() <= capacity


def test_windows_are_packed_each_by_itself():
  lengths = draw_lengths(np.arange(8 * 300)).reshape(8, 300, 2)
  rows, num_rows = pack(lengths, (64, 20))
  alone, alone_rows = pack(lengths[5:6], (64, 20))
  np.testing.assert_array_equal(alone[0], rows[5])
  assert alone_rows[0] == num_rows[5]


def test_full_examples_have_a_row_each():
  lengths = np.full((2, 50, 2), 16)
  rows, num_rows = pack(lengths, (16, 16))
  assert num_rows.tolist() == [50, 50]
  assert sorted(rows[0]) == list(range(50))


def test_short_examples_fill_their_rows():
  lengths = draw_lengths(np.arange(4096))[None]
  rows, num_rows = pack(lengths, (512, 512))
  assert lengths[..., 0].sum() / (num_rows.sum() * 512) > 0.97


def test_plan_is_the_same_from_any_row():
  plan = RowPlan(draw_lengths, (64, 20))
  number = 60_000  # rows on both sides of a border between groups
  places, owners = plan(np.arange(number))
  assert (np.diff(owners) >= 0).all()
  for first in (59_000, 0, 17, 30_123):
    rows = np.arange(first, min(first + 700, number))
    here, mine = RowPlan(draw_lengths, (64, 20))(rows)
    chosen = (owners >= first) & (owners <= rows[-1])
    np.testing.assert_array_equal(here, places[chosen])
    np.testing.assert_array_equal(mine + first, owners[chosen])
    again, _ = plan(rows)  # after groups were forgotten
    np.testing.assert_array_equal(again, here)


def test_plan_has_every_example_once():
  plan = RowPlan(draw_lengths, (64, 20))
  places, _ = plan(np.arange(5000))
  assert len(set(places.tolist())) == len(places)
  # All windows that are whole within these rows.
  whole = places.max() // WINDOW * WINDOW
  assert set(range(whole)) <= set(places.tolist())


def test_rows_of_examples_as_short_as_those_of_glue_are_full():
  """Lognormal lengths: a median of 20 tokens, one in a hundred above 110."""
  rng = np.random.default_rng(0)
  table = np.exp(rng.normal(3.0, 0.73, 5003)).clip(3, 512).astype(np.int32)
  table = np.stack([table, np.full_like(table, 3)], axis=1)
  plan = RowPlan(lambda places: table[places % 5003], (512, 114))
  places, _ = plan(np.arange(2000))
  assert table[places % 5003, 0].sum() / (2000 * 512) > 0.985


def test_plan_begins_where_it_is_told():
  first = 12_345
  rows = np.arange(500)
  shifted, _ = RowPlan(lambda p: draw_lengths(p + first), (64, 20))(rows)
  places, _ = RowPlan(draw_lengths, (64, 20), first)(rows)
  np.testing.assert_array_equal(places, shifted + first)


@pytest.mark.parametrize(
  "plan", [RowPlan(draw_lengths, (64, 20), 7), OneEach(7)]
)
@pytest.mark.parametrize("rows", [0, 1, 700, 5000])
def test_used_places_are_those_of_the_rows(plan, rows):
  used = plan.used(rows)
  expected = plan(np.arange(rows))[0].tolist() if rows else []
  found = [*range(used.first, used.end), *used.besides.tolist()]
  assert sorted(found) == sorted(expected)
  assert used.following >= max(expected, default=6) + 1
