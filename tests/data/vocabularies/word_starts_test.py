"""With which pieces a word begins, in every kind of vocabulary."""

import numpy as np
import pytest

from transformer_zoo.corruption import Blanks
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.data.vocabularies import vocabulary

TEXT = "good-natured people, unbelievably so."


@pytest.mark.parametrize(
  "pieces, expected",
  [
    (["<s>", "▁good", "nature", "▁"], [False, True, False, True]),
    (["Ġgood", "nature", "Ċ", "##"], [True, False, True, False]),
    (["[CLS]", "good", "##nature", ","], [True, True, False, True]),
    ([None, "a", " ", "\n"], [False, False, True, True]),
  ],
)
def test_kinds_of_pieces(pieces, expected):
  assert vocabulary.find_word_starts(pieces).tolist() == expected


def test_a_blank_is_read_as_it_was_trained(any_vocabulary):
  """Of a text that is encoded whole, as `zoo infer` reads it."""
  blank = any_vocabulary.encode(Blanks().blank.format(words=4))
  whole = any_vocabulary.encode("The word _4_ The word")
  apart = any_vocabulary.encode("The word") + blank
  assert whole[: len(apart)] == apart
  starts = any_vocabulary.word_starts
  assert starts is None or starts[whole[len(apart)]]


def test_pieces_that_do_not_tell():
  assert vocabulary.find_word_starts([None, "good", "nature"]) is None


@pytest.mark.parametrize(
  "path, words",
  [
    (
      "t5_cc_all_32000/sentencepiece.model",
      ["good-natured", "people,", "unbelievably", "so."],
    ),
    (
      "bert_uncased_30522/vocab.txt",
      ["good", "-", "natured", "people", ",", "unbelievably", "so", "."],
    ),
    (
      "gpt2_50257/vocab.json",
      ["good-natured", " people,", " unbelievably", " so."],
    ),
  ],
)
def test_words_of_a_text(shared_data, path, words):
  vocabulary = Vocabulary(str(shared_data / "vocab" / path))
  ids = np.array(vocabulary.encode(TEXT))
  starts = vocabulary.word_starts[ids]
  starts[0] = True
  parts = np.split(ids, np.flatnonzero(starts)[1:])
  assert [vocabulary.decode(part) for part in parts] == words


def test_words_of_bytes_begin_with_their_space():
  vocabulary = Vocabulary("bytes")
  ids = np.array(vocabulary.encode("a bc\nd"))
  assert vocabulary.word_starts[ids].tolist() == [
    *(False, True, False, False),
    *(True, False),
  ]
