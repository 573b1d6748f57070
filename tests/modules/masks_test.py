"""Masks: True where a query may attend."""

import jax.numpy as jnp
import numpy as np

from transformer_zoo.modules import masks


def test_padding_mask_needs_both_sides():
  query = jnp.asarray([[True, False]])
  key = jnp.asarray([[True, True, False]])
  expected = [[[[True, True, False], [False, False, False]]]]
  np.testing.assert_array_equal(masks.padding_mask(query, key), expected)


def test_segment_mask_keeps_examples_apart():
  query, key = jnp.asarray([[1, 2]]), jnp.asarray([[1, 1, 2]])
  expected = [[[[True, True, False], [False, False, True]]]]
  np.testing.assert_array_equal(masks.segment_mask(query, key), expected)


def test_causal_mask_hides_what_comes_after():
  expected = np.tril(np.ones((4, 4), bool))[None, None]
  np.testing.assert_array_equal(masks.causal_mask(4), expected)


def test_combine():
  assert masks.combine() is None
  assert masks.combine(None, None) is None
  causal = masks.causal_mask(3)
  assert masks.combine(None, causal) is causal
  valid = jnp.asarray([[True, True, False], [True, True, True]])
  both = masks.combine(causal, None, masks.padding_mask(valid, valid))
  assert both.shape == (2, 1, 3, 3)
  np.testing.assert_array_equal(both[1, 0], causal[0, 0])
  assert not both[0, 0, 2].any() and not both[0, 0, :, 2].any()
