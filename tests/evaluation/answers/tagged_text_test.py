"""Entities out of what a model wrote: exact, damaged, and nonsense."""

import random

import pytest

from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.answers import tagged_text
from transformer_zoo.evaluation.metrics import classification

_TOKENS = "the EU and New York reject German beef and German wine".split()
_RIGHT = (
  "the [ EU | ORG ] and [ New York | LOC ] reject [ German | MISC ] beef and "
  "[ German | MISC ] wine"
)
_ENTITIES = [
  ("ORG", 1, 2),
  ("LOC", 3, 5),
  ("MISC", 6, 7),
  ("MISC", 9, 10),
]


def test_right_text():
  assert tagged_text.find_entities(_RIGHT, _TOKENS) == _ENTITIES


@pytest.mark.parametrize(
  "old, new, lost",
  [
    ("the ", "", []),  # a word left out
    ("and [ New", "and , [ New", []),  # a word added
    ("reject", "rejects", []),  # a word misspelt
    ("[ EU | ORG ]", "EU", [0]),
    ("[ EU | ORG ]", "[ EU ]", [0]),  # no type
    ("[ EU | ORG ]", "[ EU | ]", [0]),
    ("[ EU | ORG ]", "[ | ORG ]", [0]),  # no word
    ("[ EU | ORG ]", "[ EU | ORG", [0]),  # never closed: till the next one
    ("[ EU | ORG ]", "EU | ORG ]", [0]),
    ("] wine", "", [3]),
    ("wine", "wine ] | [", []),
  ],
)
def test_damage_spoils_its_own_entity_only(old, new, lost):
  assert old in _RIGHT
  found = tagged_text.find_entities(_RIGHT.replace(old, new, 1), _TOKENS)
  expected = [e for i, e in enumerate(_ENTITIES) if i not in lost]
  assert [e for e in found if e in _ENTITIES] == expected


def test_words_that_are_not_in_the_sentence_count_as_wrong():
  text = _RIGHT.replace("EU", "E.U.").replace("New York", "York New")
  found = tagged_text.find_entities(text, _TOKENS)
  assert found[:2] == [("ORG", -1, -1), ("LOC", -1, -1)]
  assert classification.entity_f1([_ENTITIES], [found]) == {"entity_f1": 50}


@pytest.mark.parametrize(
  "token, written",
  [
    # What a vocabulary's normalisation makes of a word.
    ("½", "1⁄2"),
    ("ﬁne", "fine"),
    ("2\u00a0000", "2 000"),
    ("Ａ", "A"),
    ("e\u0301t\u00e9", "\u00e9t\u00e9"),
  ],
)
def test_words_that_a_vocabulary_writes_otherwise(token, written):
  tokens = ["a", token, "\u00a0", "b", token]
  text = f"a {written} b [ {written} | X ]"
  assert tagged_text.find_entities(text, tokens) == [("X", 4, 5)]


def test_a_part_of_a_word_is_no_entity():
  tokens = ["a", "2\u00a0000", "b"]
  text = "a [ 2 | X ] 000 [ b | Y ]"
  assert tagged_text.find_entities(text, tokens) == [
    ("X", -1, -1),
    ("Y", 2, 3),
  ]


def test_the_second_of_two_equal_words():
  tokens = "German beef and German wine".split()
  text = "German beef and [ German | MISC ] wine"
  assert tagged_text.find_entities(text, tokens) == [("MISC", 3, 4)]


@pytest.mark.parametrize("text", ["", "[ ] | [", "start: 3 end: 4"])
def test_text_without_a_word_of_the_sentence(text):
  assert tagged_text.find_entities(text, _TOKENS) is None


def test_any_text_is_read():
  generator = random.Random(0)
  pieces = [*_TOKENS, "[", "]", "|", "[[", "||", "ORG", "☃", "\n", "\0"]
  for _ in range(2_000):
    text = " ".join(generator.choices(pieces, k=generator.randrange(20)))
    for kind, start, stop in tagged_text.find_entities(text, _TOKENS) or ():
      assert kind
      assert (start, stop) == (-1, -1) or 0 <= start < stop <= len(_TOKENS)


def test_answers_take_the_bytes_of_an_example():
  example = {"tokens": [b"EU", b"\xc3\xa9"], "tags": [b"I-ORG", b"O"]}
  for text, is_target in (("[ EU | ORG ] é", False), ("", True)):
    found = post_processors.bracketed_entities(text, example, is_target)
    assert found == [("ORG", 0, 1)]


@pytest.mark.parametrize(
  "names, tags, text",
  [
    (["O", "B-X", "I-X"], ["B-X", "O"], "[ a | X ] b"),
    (["DET", "NOUN"], ["DET", "NOUN"], "a/DET b/NOUN"),
    (["LABEL_0", "LABEL_1"], ["LABEL_1", "LABEL_1"], "a/LABEL_1 b/LABEL_1"),
    # All sentences of a task have one form, whatever tags stand in them.
    (["O", "B-X", "PUNCT"], ["B-X", "O"], "a/B-X b/O"),
  ],
)
def test_tags_that_are_not_of_entities_stand_behind_words(names, tags, text):
  assert tagged_text.marked(["a", "b"], tags, names) == text
