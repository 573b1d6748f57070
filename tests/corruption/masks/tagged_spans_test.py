"""Noise on spans of a tagger: how often, whole, within the budget."""

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import TaggedSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.errors import UserError

BERT = vocabularies.bert()
# [CLS], twenty words of three pieces, [SEP].
TOKENS = np.array(
  [[vocabularies.CLS, *[6, 601, 602] * 20, vocabularies.SEP]] * 400, np.int32
)


def two_words(tokens, vocabulary):
  """Every fourth and fifth word, and a span with [CLS] that cannot be."""
  del vocabulary
  return [(0, 4), *((1 + 3 * i, 7 + 3 * i) for i in range(4, 20, 5))]


def masks(tokens=TOKENS, **settings):
  noise = TaggedSpans(two_words, **settings)
  draws = Draws(0, np.arange(len(tokens)))
  return noise(draws, tokens.shape[1], Rows(tokens, BERT))


# round(62 * 0.3) = 19 and round(62 * 0.29) = 18: six words each.
@pytest.mark.parametrize("density", [0.3, 0.29])
def test_words_and_spans_are_whole_and_within_the_budget(density):
  found = masks(noise_density=density)
  assert not found[:, [0, -1]].any()
  words = found[:, 1:-1].reshape(len(found), 20, 3)
  assert (words.all(axis=2) == words.any(axis=2)).all()
  assert (found.sum(axis=1) == 18).all()


def test_half_of_the_first_spans_are_the_taggers():
  """A budget of one span of two words, or of two words."""
  words = masks(noise_density=0.11)[:, 1:-1].reshape(-1, 20, 3).any(axis=2)
  assert (words.sum(axis=1) == 2).all()
  tagged = [(words[:, i] & words[:, i + 1]) for i in range(4, 19, 5)]
  assert np.any(tagged, axis=0).mean() == pytest.approx(0.5, abs=0.08)
  always = masks(noise_density=0.11, share=1.0)[:, 1:-1]
  words = always.reshape(-1, 20, 3).any(axis=2)
  tagged = [(words[:, i] & words[:, i + 1]) for i in range(4, 19, 5)]
  assert np.any(tagged, axis=0).all()


def test_a_row_does_not_depend_on_the_others():
  noise, some = TaggedSpans(two_words), np.array([3, 17, 255])
  few = noise(Draws(0, some), TOKENS.shape[1], Rows(TOKENS[some], BERT))
  np.testing.assert_array_equal(few, masks()[some])


def test_what_is_refused():
  with pytest.raises(UserError) as caught:
    TaggedSpans("spacy")
  assert str(caught.value) == (
    "TaggedSpans.tagger is 'spacy'; it must be a function of token ids and "
    "vocabulary that returns (first, behind the last) of each span: bind one "
    "of a module that --module names."
  )
  with pytest.raises(UserError, match="TaggedSpans needs the text; use it in"):
    TaggedSpans(two_words)(Draws(0, np.arange(2)), 9)
