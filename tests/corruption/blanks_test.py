"""Blanks: the span and what is left are the text; the number is its words."""

import gzip
import json
import re

import gin
import numpy as np
import pytest
import sentencepiece

from tests.corruption import vocabulary as vocabularies
from transformer_zoo import config
from transformer_zoo.corruption import Blanks
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.data.vocabularies import Vocabulary
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


def test_large_numbers_are_drawn_and_are_about_the_words_hidden():
  """The shipped rows have room for all numbers to 512.

  A span has up to a third more or fewer tokens than its number of words takes,
  and says the nearest number, which is at most sqrt(2) from its words in ratio.
  """
  config.load(["objectives/blanks.gin"], root="CORRUPTION")
  sizes = config.value("CORRUPTION").sizes
  lengths = config.value("TASK_FEATURE_LENGTHS")
  gin.clear_config()
  assert sizes == tuple(2**power for power in range(10))
  # Of the ids of a text, from 6 to 999, those from 600 on continue words.
  tokens_per_word = 994 / 594
  blanks = Blanks(sizes=sizes, tokens_per_word=tokens_per_word)
  tokens = vocabularies.text(1500, blanks.raw_length(lengths), words=True)
  made = blanks(tokens, Draws(0, np.arange(1500)), VOCABULARY)
  asked = []
  for inputs, span in zip(
    made["inputs"].rows(), made["targets"].rows(), strict=True
  ):
    assert len(span) < lengths["targets"] and len(inputs) < lengths["inputs"]
    (place,) = np.flatnonzero(inputs == BLANK)
    number = inputs[place + 1] - 700
    if number < 64:
      continue
    asked.append(number)
    words = np.count_nonzero(VOCABULARY.word_starts[span])
    assert abs(np.log(words / number)) <= np.log(2) / 2
    drawn = len(span) / (tokens_per_word * np.array(sizes))
    assert np.abs(drawn - 1).min() <= 1 / 3 + 0.01
  counts = [asked.count(number) for number in (64, 128, 256, 512)]
  # Each number is drawn in a tenth of the texts, and spans that are a third
  # too long or short for one may be nearer to another.
  assert min(counts) > 100 and max(counts) < 230


def test_every_size_is_about_as_frequent():
  blanks = Blanks(sizes=SIZES, tokens_per_word=1.0)
  _, sizes = blanks._spans(Draws(0, np.arange(5000)), 56)
  nearest = [min(SIZES, key=lambda n: abs(np.log(n / size))) for size in sizes]
  shares = [nearest.count(size) / 5000 for size in SIZES]
  np.testing.assert_allclose(shares, 0.2, atol=0.06)


@pytest.fixture(scope="module")
def t5(shared_data):
  """T5's own vocabulary, and its pieces by SentencePiece itself."""
  path = str(shared_data / "vocab/t5_cc_all_32000/sentencepiece.model")
  pieces = sentencepiece.SentencePieceProcessor(model_file=path)
  return Vocabulary(path), pieces


@pytest.mark.parametrize("words", [2**power for power in (*range(7), 9)])
def test_a_user_s_blank_is_that_of_training(words, t5):
  """The sentence of T5's demonstration: the tokens that `Blanks` puts in."""
  vocabulary, _ = t5
  sentence = f"I love peanut butter and _{words}_ sandwiches"
  left, right = (
    vocabulary.encode(text) for text in re.split(r" _\d+_", sentence)
  )
  blank = vocabulary.encode(Blanks().blank.format(words=words))
  asked = vocabulary.encode_prompt(sentence)
  assert list(asked) == [*left, *blank, *right]
  assert vocabulary.decode(asked) == sentence


def words_between(pieces: list[str], start: int, end: int) -> int:
  """The words of a text whose space before is in pieces start to end."""
  first, last = (len("".join(pieces[:place])) for place in (start, end))
  words = re.finditer("▁+(?=[^▁])", "".join(pieces))
  return sum(first <= word.start() < last for word in words)


def test_blanks_of_real_text_ask_for_their_words(t5, shared_data):
  """Each says the nearest size to the words that a reader counts."""
  vocabulary, processor = t5
  blanks, ids, rows = Blanks(), [], 100
  lengths = {"inputs": 1024, "targets": 1024}
  length = blanks.raw_length(lengths)
  path = shared_data / "text/wikipedia/validation.jsonl.gz"
  with gzip.open(path, "rt") as file:
    while len(ids) < rows * length:
      ids.extend(vocabulary.encode(json.loads(next(file))["text"]))
  tokens = np.array(ids[: rows * length]).reshape(rows, length)
  made = blanks(tokens, Draws(0, np.arange(rows)), vocabulary)
  asked = []
  for text, inputs, span in zip(
    tokens, made["inputs"].rows(), made["targets"].rows(), strict=True
  ):
    pieces = processor.IdToPiece(text.tolist())
    read = "".join(processor.IdToPiece(inputs.tolist()))
    (blank,) = re.finditer("▁_(\\d+)_", read)
    start = next(
      place
      for place in range(length)
      if len("".join(pieces[:place])) == blank.start()
    )
    words = words_between(pieces, start, start + len(span))
    asked.append(int(blank[1]))
    low, high = asked[-1] / 2**0.5, asked[-1] * 2**0.5
    assert low <= words <= high or max(words, 1) == asked[-1] == 1
  assert {*asked} == {*blanks.sizes}


@pytest.mark.parametrize(
  ("wrong", "sentence"),
  [({"sizes": ()}, "one or more numbers"), ({"blank": "__"}, "{words}")],
)
def test_refusals(wrong, sentence):
  with pytest.raises(UserError, match=sentence):
    Blanks(**wrong)
  with pytest.raises(UserError, match="too short for a blank"):
    Blanks().check({"inputs": 9, "targets": 9}, VOCABULARY)
  with pytest.raises(UserError, match="do not show where words begin"):
    Blanks().check(LENGTHS, vocabularies.t5(word_starts=None))
