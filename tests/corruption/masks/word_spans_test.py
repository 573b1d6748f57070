"""Noise on whole words: budgets, shares of span lengths, special tokens."""

import itertools

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import WordSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.corruption.masks.word_spans import geometric_weights
from transformer_zoo.errors import UserError

BERT = vocabularies.bert()
ALBERT_WEIGHTS = (1, 1 / 2, 1 / 3)
SPANBERT = WordSpans(0.15, geometric_weights(0.2, 10), cut_last=True)


def _spans(mask):
  """Returns the lengths of the runs of True."""
  edges = np.flatnonzero(np.diff(np.concatenate([[0], mask, [0]])))
  return edges[1::2] - edges[::2]


def _framed(rows, length):
  """Returns texts of words of several pieces between [CLS] and [SEP]."""
  tokens = vocabularies.text(rows, length, words=True)
  tokens[:, 0], tokens[:, -1] = vocabularies.CLS, vocabularies.SEP
  return tokens


def _draw(noise, tokens, indices=None):
  indices = np.arange(len(tokens)) if indices is None else indices
  return noise(Draws(0, indices), tokens.shape[1], Rows(tokens, BERT))


def test_words_stay_whole_within_the_budget():
  tokens = np.tile([6, 601, 602], (40, 20)).astype(np.int32)
  masks = _draw(WordSpans(0.2), tokens)
  words = masks.reshape(40, 20, 3)
  assert (words.all(axis=2) == words.any(axis=2)).all()
  assert (masks.sum(axis=1) == 12).all()


def test_a_budget_that_no_word_fits_is_left():
  tokens = np.tile([6, 601, 602], (9, 20)).astype(np.int32)
  # round(60 * 0.17) = 10: three words of three, and one token that is left.
  assert (_draw(WordSpans(0.17), tokens).sum(axis=1) == 9).all()
  cut = WordSpans(0.17, cut_last=True)  # rounded up
  assert (_draw(cut, tokens).sum(axis=1) == 11).all()


@pytest.mark.parametrize(
  "noise",
  [
    WordSpans(),
    WordSpans(0.15, ALBERT_WEIGHTS),
    WordSpans(0.3, ALBERT_WEIGHTS, most=20),
    SPANBERT,
    WordSpans(0.15, (0.8, 0.1, 0.1), whole_words=False),
    WordSpans(0.9),
  ],
)
def test_special_tokens_stay_and_a_row_knows_nothing_of_the_others(noise):
  tokens = _framed(30, 128)
  tokens[:, 60] = vocabularies.SEP
  tokens[7, 90:] = vocabularies.PAD
  masks = _draw(noise, tokens)
  assert not masks[tokens < vocabularies.FIRST].any()
  for row in (0, 7, 29):
    alone = _draw(noise, tokens[row : row + 1], [row])
    np.testing.assert_array_equal(alone[0], masks[row])
  wanted = noise.noise_density * np.where(np.arange(30) == 7, 90, 128)
  wanted = np.ceil(wanted) if noise.cut_last else np.rint(wanted)
  if noise.most:
    wanted = np.minimum(wanted, noise.most)
  assert (masks.sum(axis=1) <= wanted).all()
  # Words of one piece fill up what is left.
  assert (masks.sum(axis=1) >= wanted - 2).all()


def test_nothing_but_special_tokens():
  tokens = np.full((2, 4), vocabularies.SEP, np.int32)
  assert not _draw(WordSpans(), tokens).any()
  assert not WordSpans()(Draws(0, [0]), 0).any()


def _first_spans(noise, rows, length):
  """Returns the words of the first proposal of each row."""
  draws = Draws(3, np.arange(rows)).branch()
  firsts, counts = noise._proposals(draws, np.full(rows, length))
  return firsts[0], counts[0]


@pytest.mark.parametrize(
  "weights", [(1.0,), ALBERT_WEIGHTS, geometric_weights(0.2, 10)]
)
def test_proposals_have_the_weights_and_begin_everywhere(weights):
  rows = 100_000
  firsts, counts = _first_spans(WordSpans(0.15, weights), rows, 50)
  expected = rows * np.array(weights) / sum(weights)
  seen = np.bincount(counts, minlength=len(weights) + 1)[1:]
  assert ((seen - expected) ** 2 / expected).sum() < 27.9  # 99.9 %, 9 degrees
  places = np.bincount(firsts, minlength=50)
  assert ((places - 2000) ** 2 / 2000).sum() < 85.4  # 99.9 %, 49 degrees
  # Place and length are independent.
  early, late = counts[firsts < 25].mean(), counts[firsts >= 25].mean()
  assert early == pytest.approx(late, abs=0.06)


def test_spans_of_spanbert_meet_the_budget_and_the_mean():
  weights = np.array(SPANBERT.weights)
  mean = np.dot(weights, np.arange(1, 11)) / weights.sum()
  assert mean == pytest.approx(3.8, abs=0.01)  # Joshi et al. 2020, figure 2
  masks = SPANBERT(Draws(0, np.arange(2000)), 400)
  assert (masks.sum(axis=1) == 60).all()
  # Long spans meet others more often, and neighbours become one.
  counts = [len(_spans(mask)) for mask in masks]
  assert np.mean(counts) == pytest.approx(60 / mean, rel=0.1)
  assert masks.mean(axis=0)[10:-10] == pytest.approx(0.15, abs=0.05)


@pytest.mark.slow
def test_single_words_are_a_uniform_choice():
  # Two of five words: ten choices.
  masks = WordSpans(0.4)(Draws(0, np.arange(100_000)), 5)
  chosen, counts = np.unique(masks, axis=0, return_counts=True)
  assert len(chosen) == len([*itertools.combinations(range(5), 2)])
  assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9  # 9 degrees


def test_denoising_replaces_whole_words():
  tokens = np.tile([6, 601, 602], (5, 20)).astype(np.int32)
  vocabulary = vocabularies.bert(sentinel_ids=np.arange(999, 899, -1))
  noisy = Denoising(WordSpans(0.2))(tokens, Draws(0, np.arange(5)), vocabulary)
  for row in noisy["targets"].rows():
    words = row[(row < 900) & (row != 999)]
    assert (words.reshape(-1, 3) == [6, 601, 602]).all()


def test_words_that_are_not_known_are_told():
  vocabulary = vocabularies.t5()
  with pytest.raises(UserError, match="shows where words begin; set whole_w"):
    Denoising(WordSpans()).check({"inputs": 64, "targets": 64}, vocabulary)
  tokens = Denoising(WordSpans(whole_words=False))
  tokens.check({"inputs": 64, "targets": 64}, vocabulary)


def test_fields_are_checked():
  with pytest.raises(UserError, match="p must lie between"):
    geometric_weights(1.0, 3)
  with pytest.raises(UserError, match=r"WordSpans.most is 0; it must be"):
    WordSpans(most=0)
