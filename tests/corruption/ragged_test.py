"""Ragged rows: ended, cut and reordered as one would by hand."""

import numpy as np
import pytest

from transformer_zoo.corruption.ragged import interleave
from transformer_zoo.corruption.ragged import join
from transformer_zoo.corruption.ragged import Ragged

ROWS = [[5, 6, 7], [], [8, 9, 10, 11]]


@pytest.mark.parametrize("width", [1, 3, 4, 6])
@pytest.mark.parametrize("eos_after_trim", [False, True])
def test_ended(width, eos_after_trim):
  ragged = Ragged.of([np.array(row) for row in ROWS])
  ended = ragged.ended(1, width, eos_after_trim).rows()
  for row, expected in zip(ended, ROWS, strict=True):
    whole = [*expected, 1]
    if len(whole) > width and eos_after_trim:
      assert row.tolist() == [*whole[: width - 1], 1]
    else:
      assert row.tolist() == whole[:width]


def test_take_and_join():
  ragged = Ragged.of([np.array(row) for row in ROWS])
  taken = ragged.take(np.array([2, 0, 2, 1]))
  assert [row.tolist() for row in taken.rows()] == [
    ROWS[i] for i in (2, 0, 2, 1)
  ]
  joined = join([ragged, taken])
  assert [row.tolist() for row in joined.rows()][3:] == [
    row.tolist() for row in taken.rows()
  ]


def test_rows_and_back():
  ragged = Ragged.of([np.array(row) for row in ROWS])
  assert [row.tolist() for row in ragged.rows()] == ROWS
  assert ragged.values.dtype == np.int32
  assert Ragged.of([]).rows()[0].size == 0


def test_selected():
  tokens = np.arange(6, dtype=np.int32).reshape(2, 3)
  ragged = Ragged.selected(tokens, tokens % 2 == 0)
  assert [row.tolist() for row in ragged.rows()] == [[0, 2], [4]]
  assert [row.tolist() for row in Ragged.full(tokens).rows()] == [
    [0, 1, 2],
    [3, 4, 5],
  ]


def test_padded():
  rows, filled = Ragged.of([np.array(row) for row in ROWS]).padded(9, 7)
  assert rows.dtype == np.int32
  for row, some, expected in zip(rows, filled, ROWS, strict=True):
    assert row[some].tolist() == expected
    assert row.tolist() == expected + [7] * (9 - len(expected))


def test_interleave_goes_example_by_example():
  ragged = Ragged.of([np.array(row) for row in ROWS])
  ones = Ragged.full(np.ones((len(ROWS), 1), np.int32))
  joined = interleave([ones, ragged, ragged])
  assert [row.tolist() for row in joined.rows()] == [
    [1, *row, *row] for row in ROWS
  ]


def test_tokens_chosen_by_flat_and_by_padded_flags():
  ragged = Ragged.of([np.arange(3), np.arange(0), np.arange(10, 12)])
  assert ragged.starts.tolist() == [0, 3, 3]
  matrix = np.arange(12).reshape(3, 4)
  assert ragged.within(matrix).tolist() == [0, 1, 2, 8, 9]
  kept = ragged.where(np.array([True, False, True, False, True]))
  assert [row.tolist() for row in kept.rows()] == [[0, 2], [], [11]]
