"""Targets of word vectors: the token itself, or one around it."""

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import ContextTokens
from transformer_zoo.corruption import OwnTokens
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError

BERT = vocabularies.bert()
LENGTHS = {"inputs": 42, "targets": 42}


def made(objective):
  # Ascending ids, so that differences of ids are distances.
  tokens = np.tile(np.arange(500, 540, dtype=np.int32), (2000, 1))
  found = objective(tokens, Draws(0, np.arange(2000)), BERT)
  return [
    found[name].values.reshape(2000, 42)
    for name in ("inputs", "targets", "weights")
  ]


def test_own_tokens_are_predicted_but_for_special_ones():
  assert OwnTokens().raw_length(LENGTHS) == 40
  assert OwnTokens().check(LENGTHS, BERT) == 0
  inputs, targets, weights = made(OwnTokens())
  np.testing.assert_array_equal(inputs, targets)
  assert not weights[:, [0, -1]].any() and weights[:, 1:-1].all()


def test_a_token_of_the_context_comes_as_often_as_windows_have_it():
  inputs, targets, weights = made(ContextTokens(window=3))
  assert not weights[:, [0, -1]].any()
  middle = slice(4, -4)
  assert weights[:, middle].all()
  found = (targets - inputs)[:, middle]
  # Windows of 1, 2 and 3, each as often: 1/3 (1/2 + 1/4 + 1/6) of distance 1.
  for distance, share in ((1, 11 / 36), (2, 5 / 36), (3, 2 / 36)):
    for signed in (distance, -distance):
      assert (found == signed).mean() == pytest.approx(share, abs=0.005)
  assert set(np.unique(found)) == {-3, -2, -1, 1, 2, 3}


def test_a_target_outside_of_the_row_or_special_has_no_weight():
  inputs, targets, weights = made(ContextTokens(window=3))
  assert (np.abs(targets - inputs)[weights == 1] <= 3).all()
  # Of the first token of the text: those before it are special or absent.
  assert weights[:, 1].mean() == pytest.approx(0.5, abs=0.05)


def test_a_window_of_no_token_is_refused():
  with pytest.raises(UserError, match="ContextTokens.window is 0; it must be"):
    ContextTokens(window=0)
