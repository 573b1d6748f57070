"""Ragged rows: cut and padded as one would by hand."""

import numpy as np
import pytest

from transformer_zoo.corruption.ragged import Ragged

ROWS = [[5, 6, 7], [], [8, 9, 10, 11]]


@pytest.mark.parametrize("width", [1, 3, 6])
@pytest.mark.parametrize("eos_id", [None, 1])
def test_padded(width, eos_id):
  padded = Ragged.of([np.array(row) for row in ROWS]).padded(width, eos_id)
  for row, expected in zip(padded.tolist(), ROWS, strict=True):
    if eos_id is not None:
      expected = [*expected[: width - 1], eos_id]
    expected = expected[:width]
    assert row == expected + [0] * (width - len(expected))


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
