"""Blanks: the span and what is left are the text; the number is its words."""

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import Blanks
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError

BLANK = 3
SIZES = (1, 2, 4, 8, 16)
# The number stands as a token of its own behind the blank's.
VOCABULARY = vocabularies.t5(
  word_starts=np.arange(vocabularies.SIZE) < vocabularies.CONTINUES,
  encode=lambda text: [BLANK, 700 + int(text.strip(" _"))],
)
LENGTHS = {"inputs": 64, "targets": 64}


def test_spans_blanks_and_numbers():
  blanks = Blanks(sizes=SIZES)
  tokens = vocabularies.text(400, blanks.raw_length(LENGTHS), words=True)
  made = blanks(tokens, Draws(0, np.arange(400)), VOCABULARY)
  asked = []
  for text, inputs, span in zip(
    tokens, made["inputs"].rows(), made["targets"].rows(), strict=True
  ):
    (place,) = np.flatnonzero(inputs == BLANK)
    asked.append(inputs[place + 1] - 700)
    whole = np.concatenate([inputs[:place], span, inputs[place + 2 :]])
    np.testing.assert_array_equal(whole, text)
    assert len(inputs) <= LENGTHS["inputs"] - 1
    words = max(np.count_nonzero(VOCABULARY.word_starts[span]), 1)
    ratios = [abs(np.log(size / words)) for size in SIZES]
    assert asked[-1] == SIZES[int(np.argmin(ratios))]
  assert {*asked} == {*SIZES}


def test_every_size_is_about_as_frequent():
  blanks = Blanks(sizes=SIZES, tokens_per_word=1.0)
  _, sizes = blanks._spans(Draws(0, np.arange(5000)), 56)
  nearest = [min(SIZES, key=lambda n: abs(np.log(n / size))) for size in sizes]
  shares = [nearest.count(size) / 5000 for size in SIZES]
  np.testing.assert_allclose(shares, 0.2, atol=0.06)


@pytest.mark.parametrize(
  ("wrong", "sentence"),
  [({"sizes": ()}, "one or more numbers"), ({"blank": "__"}, "{words}")],
)
def test_refusals(wrong, sentence):
  with pytest.raises(UserError, match=sentence):
    Blanks(**wrong)
  with pytest.raises(UserError, match="too short for a blank"):
    Blanks().check({"inputs": 9, "targets": 9}, VOCABULARY)
  with pytest.raises(UserError, match="do not tell where words begin"):
    Blanks().check(LENGTHS, vocabularies.t5(word_starts=None))
