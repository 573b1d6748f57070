"""The questions: whole, different, enough of each kind."""

import collections

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes import questions

ALL = questions.questions()


def test_every_kind_and_language_has_a_few_hundred_questions():
  counts = collections.Counter((q.language, q.kind) for q in ALL)
  assert len(counts) == len(questions.KINDS) * len(questions.LANGUAGES)
  assert all(120 <= n <= 300 for n in counts.values()), counts


def test_questions_are_minimal_pairs():
  assert len(set(ALL)) == len(ALL)
  for question in ALL:
    assert question.text.count(questions.GAP) == 1
    assert question.right != question.wrong
    assert "{" not in question.text + question.right + question.wrong
  # No question contradicts another one.
  told = {(q.text, q.right) for q in ALL if q.kind != "bias"}
  assert not {(q.text, q.wrong) for q in ALL if q.kind != "bias"} & told


def test_sides_of_a_gap():
  question = questions.Question("lexical", "en", "A ___ b .", "x", "y")
  assert question.sides == ("A", "b .")


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (
      {"kinds": ["history"]},
      "there are no probes of the kind 'history'; choose among trivia, syntax, "
      "coreference, lexical, sentiment, reasoning, arithmetic, bias",
    ),
    (
      {"languages": ["fr"]},
      "there are no probes of the language 'fr'; choose among en, ko",
    ),
  ],
)
def test_what_is_not_there_is_refused(arguments, sentence):
  with pytest.raises(UserError) as raised:
    questions.questions(**arguments)
  assert str(raised.value) == sentence
