"""Pairs of a few labelled texts."""

import collections

import pytest

from tasks.your_data import label_pairs
from transformer_zoo.errors import UserError

LABELLED = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "z")]


def test_each_text_has_pairs_of_both_kinds():
  pairs = list(label_pairs.pairs_of(LABELLED, 6, seed=0))
  assert pairs == list(label_pairs.pairs_of(LABELLED, 6, seed=0))
  label_of = dict(LABELLED)
  number = collections.Counter()
  for pair in pairs:
    first, second = pair["texts"]
    assert pair["label"] == (label_of[first] == label_of[second])
    assert (pair["inputs"], pair["targets"]) == (first, second)
    number[first, pair["label"]] += 1
  assert set(number.values()) == {6} and len(number) == 8
  assert {p["texts"][1] for p in pairs if p["texts"][0] == "a"} == set("abcd")


def test_one_label_makes_no_pairs():
  with pytest.raises(UserError, match="all texts have x; add others"):
    list(label_pairs.pairs_of(LABELLED[:1], 1, seed=0))
