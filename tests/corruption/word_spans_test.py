"""Whole-word noise: budgets, whole words, special tokens left alone."""

import numpy as np
import pytest

from transformer_zoo.corruption import WordSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.word_spans import geometric_weights
from transformer_zoo.errors import UserError


def _spans(mask):
  """Returns the lengths of the runs of True."""
  edges = np.flatnonzero(np.diff(np.concatenate([[0], mask, [0]])))
  return edges[1::2] - edges[::2]


def test_word_spans_keep_words_whole_and_the_budget():
  word_starts = np.tile(np.arange(60) % 3 == 0, (40, 1))
  noise = WordSpans(0.2)
  masks = noise(Draws(0, np.arange(40)), 60, word_starts)
  words = masks.reshape(40, 20, 3)
  assert (words.all(axis=2) == words.any(axis=2)).all()
  assert (masks.sum(axis=1) == 12).all()


def test_word_spans_of_spanbert_meet_the_budget_and_the_mean():
  weights = geometric_weights(0.2, 10)
  lengths = np.arange(1, 11)
  mean = np.dot(weights, lengths) / sum(weights)
  assert mean == pytest.approx(3.8, abs=0.01)  # Joshi et al. 2020, figure 2
  noise = WordSpans(0.15, weights, cut_last=True)
  masks = noise(Draws(0, np.arange(200)), 400)
  assert (masks.sum(axis=1) == 60).all()
  # Fewer spans than words: they are drawn as spans.
  counts = [len(_spans(mask)) for mask in masks]
  assert 12 < np.mean(counts) < 18


def test_word_spans_leave_special_tokens_alone():
  allowed = np.ones((30, 50), bool)
  allowed[:, [0, 20, 49]] = False
  masks = WordSpans(0.3, (1, 1 / 2, 1 / 3))(
    Draws(0, np.arange(30)), 50, None, allowed
  )
  assert not masks[:, [0, 20, 49]].any()
  assert (masks.sum(axis=1) == 14).all()
  none = WordSpans()(Draws(0, [0]), 4, None, np.zeros((1, 4), bool))
  assert not none.any()


def test_geometric_weights_are_checked():
  with pytest.raises(UserError, match="p must lie between"):
    geometric_weights(1.0, 3)
