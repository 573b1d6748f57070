"""Masks: True where a query may attend."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo.corruption import unified_lm
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.by_layer import Windows
from transformer_zoo.modules.positions import Positions


def test_padding_mask_needs_both_sides():
  query = np.asarray([[True, False]])
  key = np.asarray([[True, True, False]])
  expected = [[[[True, True, False], [False, False, False]]]]
  np.testing.assert_array_equal(masks.padding_mask(query, key), expected)


def test_segment_mask_keeps_examples_apart():
  query, key = np.asarray([[1, 2]]), np.asarray([[1, 1, 2]])
  expected = [[[[True, True, False], [False, False, True]]]]
  np.testing.assert_array_equal(masks.segment_mask(query, key), expected)


def test_causal_mask_hides_what_comes_after():
  expected = np.tril(np.ones((4, 4), bool))[None, None]
  np.testing.assert_array_equal(masks.causal_mask(4), expected)


# Two tokens of the first segment and two of the second: Dong et al., figure 1.
WHO_SEES_WHOM = {
  "bidirectional": ["1111", "1111", "1111", "1111"],
  "sequence_to_sequence": ["1100", "1100", "1110", "1111"],
  "left_to_right": ["1000", "1100", "1110", "1111"],
  "right_to_left": ["1111", "0111", "0011", "0001"],
}


@pytest.mark.parametrize("kind", WHO_SEES_WHOM)
def test_attention_kinds(kind):
  number = unified_lm.ATTENTION_KINDS.index(kind)
  second = np.asarray([[False, False, True, True]])
  mask = programs.run(masks.attention_kind_mask, np.asarray([number]), second)
  expected = [[c == "1" for c in row] for row in WHO_SEES_WHOM[kind]]
  np.testing.assert_array_equal(mask, [[expected]])


def test_attention_kinds_are_those_of_each_row():
  second = np.asarray([[False, False, True], [False, True, True]] * 2)
  kinds = np.arange(4)
  together = np.asarray(programs.run(masks.attention_kind_mask, kinds, second))
  for row in range(4):
    one = slice(row, row + 1)
    alone = programs.run(masks.attention_kind_mask, kinds[one], second[one])
    np.testing.assert_array_equal(together[one], alone)


def test_combine():
  assert masks.combine() is None
  assert masks.combine(None, None) is None
  causal = np.asarray(masks.causal_mask(3))
  assert masks.combine(None, causal) is causal
  valid = np.asarray([[True, True, False], [True, True, True]])
  padding = masks.padding_mask(valid, valid)
  both = np.asarray(masks.combine(causal, None, padding))
  assert both.shape == (2, 1, 3, 3)
  np.testing.assert_array_equal(both[1, 0], causal[0, 0])
  assert not both[0, 0, 2].any() and not both[0, 0, :, 2].any()


def test_a_window_may_show_more_ahead_than_back():
  positions = Positions.of_length(6, bidirectional=True)
  found = masks.windowed(None, positions, jnp.array([2, 3]))
  places = np.arange(6)
  distance = places - places[:, None]
  expected = (distance > -2) & (distance < 3)
  np.testing.assert_array_equal(found.array_B1LM[0, 0], expected)
  first, last = (
    np.asarray(each)[0][:, None] for each in (found.first_BL, found.last_BL)
  )
  np.testing.assert_array_equal((places >= first) & (places <= last), expected)
  with pytest.raises(UserError, match="Windows.more_ahead is -1; it is a num"):
    Windows((2,), more_ahead=-1)
