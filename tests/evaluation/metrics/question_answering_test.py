"""Question answering: t5's goldens, rules by hand, edges."""

import json
import random

import numpy as np
import pytest

from transformer_zoo.evaluation.metrics import question_answering

QA_TARGETS = [
  ["big moose", "hippo"],
  ["correct1"],
  ["correct2.1", "correct2.2"],
  ["a", "b"],
]
QA_PREDICTIONS = ["‘a big  Moose!‘", "wrong", "correct2.2", "c"]
TEXT = "this is a string"


@pytest.mark.parametrize(
  "metric, targets, predictions, expected",
  [
    (
      question_answering.squad,
      [["abc abd", "$$$$"]],
      ["abd"],
      {"em": 0, "f1": 200 / 3},
    ),
    (
      question_answering.squad,
      [["", TEXT], [TEXT, TEXT]],
      [TEXT] * 2,
      {"em": 100, "f1": 100},
    ),
    (
      question_answering.squad,
      [[TEXT, TEXT]] * 2,
      ["", ""],
      {"em": 0, "f1": 0},
    ),
    (
      question_answering.squad,
      QA_TARGETS,
      QA_PREDICTIONS,
      {"em": 25, "f1": 35},
    ),
    (
      question_answering.trivia_qa,
      QA_TARGETS,
      QA_PREDICTIONS,
      {"em": 50, "f1": 50},
    ),
  ],
)
def test_goldens_of_t5(metric, targets, predictions, expected):
  actual = metric(targets, predictions)
  assert actual == pytest.approx(expected)
  assert list(actual) == list(expected)
  json.dumps(actual)


@pytest.mark.parametrize(
  "prediction, squad, trivia_qa",
  [
    ("The Big-Apple!", 100, 100),
    ("big apple", 0, 100),
    ("a big apple", 0, 100),
    ("‘big apple’", 0, 100),
    ("big_apple", 100, 100),
    ("“big apple”", 0, 0),
    ("BIGAPPLE", 100, 0),
  ],
)
def test_punctuation_is_dropped_by_squad_and_a_space_in_trivia_qa(
  prediction, squad, trivia_qa
):
  accepted = [["big-apple"]]
  assert question_answering.squad(accepted, [prediction])["em"] == squad
  assert question_answering.trivia_qa(accepted, [prediction])["em"] == trivia_qa


def test_an_article_leaves_a_space():
  assert question_answering.squad([["“The” fox"]], ["“ ” fox"])["em"] == 100
  assert question_answering.squad([["“The” fox"]], ["“” fox"])["em"] == 0


@pytest.mark.parametrize("empty", ["", " \n", "the", "a, an.", "!"])
def test_answers_with_nothing_in_them(empty):
  # SQuAD 1.1 has no overlap of nothing with nothing, SQuAD 2.0 has.
  assert question_answering.squad([["."]], [empty]) == {"em": 100, "f1": 0}
  assert question_answering.squad([["fox"]], [empty]) == {"em": 0, "f1": 0}
  for accepted in ([], ["the"], ["", "?"]):
    scores = question_answering.squad_v2([accepted], [empty])
    assert (scores["em"], scores["f1"]) == (100, 100)
    scores = question_answering.squad_v2([accepted], ["fox"])
    assert (scores["em"], scores["f1"]) == (0, 0)
  # An accepted answer without words is none, beside one with words.
  scores = question_answering.squad_v2([["the", "fox"]], [empty])
  assert (scores["em"], scores["f1"]) == (0, 0)


def test_f1_is_that_of_the_accepted_answer_which_is_nearest():
  accepted, prediction = ["red fox", "blue whale", "fox in a den"], "fox"
  for metric in (question_answering.squad, question_answering.squad_v2):
    found = metric([accepted], [prediction])
    assert found["f1"] == pytest.approx(200 / 3)


def test_squad_v2_gives_the_parts_that_there_are():
  answerable = question_answering.squad_v2([["fox"]], ["fox"])
  assert answerable == {
    "em": 100,
    "f1": 100,
    "has_answer_em": 100,
    "has_answer_f1": 100,
  }
  declined = question_answering.squad_v2([[], ["red fox"]], ["", "fox"])
  assert declined == {
    "em": 50,
    "f1": pytest.approx(100 * 5 / 6),
    "has_answer_em": 0,
    "has_answer_f1": pytest.approx(200 / 3),
    "no_answer_em": 100,
    "no_answer_f1": 100,
  }


@pytest.mark.parametrize("name", ["squad", "trivia_qa"])
def test_a_question_without_accepted_answer_is_refused(name):
  metric = getattr(question_answering, name)
  with pytest.raises(
    ValueError,
    match=r"^question 1 has no accepted answer; question_answering\.squad_v2 "
    "is the metric for questions without one$",
  ):
    metric([["fox"], []], ["fox", ""])


@pytest.mark.parametrize(
  "metric",
  [
    question_answering.squad,
    question_answering.squad_v2,
    question_answering.trivia_qa,
    question_answering.span_squad,
    question_answering.multirc,
    question_answering.record,
  ],
)
def test_empty_sets_and_unequal_lengths(metric):
  assert set(metric([], []).values()) == {0.0}
  with pytest.raises(
    ValueError,
    match="^0 targets and 1 predictions: a metric needs as many of both$",
  ):
    metric([], ["fox"])


@pytest.mark.parametrize(
  "text, expected",
  [
    ("start: 3 end: 6", (3, 6)),
    ("start:3 end:6", (3, 6)),
    ("start 3 to 6 or so", (3, 6)),
    ("start: three end: six", None),
    ("start: 3", None),
    ("start: 3 end: 6.5", (3, 6)),
    ("", None),
  ],
)
def test_positions(text, expected):
  assert question_answering.positions(text) == expected


CONTEXT = "Élise's red-brown fox (born 1999) ran _off_ to the sea."


@pytest.mark.parametrize(
  "prediction, text",
  [
    ("start: 0 end: 1", "Élise s"),
    ("start: 2 end: 4", "red brown fox"),
    ("start:4 end:4", "fox"),
    ("start: 8 end: 99", "_off_ to the sea"),
    ("start: 3 end: 2", ""),
    ("start: 50 end: 60", ""),
    ("from 4 to 5", "fox born"),
    ("start: x end: 3", ""),
    ("fox", ""),
    ("", ""),
  ],
)
def test_span_squad_reads_positions(prediction, text):
  target = {"answers": [text or "fox"], "context": CONTEXT}
  scores = question_answering.span_squad([target], [prediction])
  assert scores == {"em": 100 * bool(text), "f1": 100 * bool(text)}


def test_span_squad_takes_the_best_answer():
  targets = [{"answers": ["ran", "brown fox"], "context": CONTEXT}] * 2
  predictions = ["start: 3 end: 4", "start: 2 end: 4"]
  assert question_answering.span_squad(targets, predictions) == {
    "em": 50,
    "f1": pytest.approx((100 + 80) / 2),
  }


def _answers_of(questions):
  """MultiRC's targets and predictions of {question: [(target, prediction)]}."""
  pairs = [(g, t, p) for g, answers in questions.items() for t, p in answers]
  random.Random(5).shuffle(pairs)
  targets = [{"group": group, "value": target} for group, target, _ in pairs]
  return targets, [{"value": prediction} for *_, prediction in pairs]


def test_multirc():
  # By hand: right ones among the answers marked right 3 of 4, found 3 of 5.
  targets, predictions = _answers_of(
    {
      "0": [(1, 1), (0, 0), (0, 0)],
      "1": [(1, 1), (1, -1), (0, 1)],
      "2": [(0, 0)],
      "3": [(1, 1), (1, 0)],
    }
  )
  assert question_answering.multirc(targets, predictions) == {
    "f1": pytest.approx(100 * 2 * 3 / (4 + 5)),
    "exact_match": 50,
  }


@pytest.mark.parametrize(
  "group",
  [7, np.int64(7), "7", (0, 7), [0, 7], np.array([0, 7])],
  ids=lambda group: type(group).__name__,
)
def test_groups_of_any_form(group):
  other = 8 if np.ndim(group) == 0 else (1, 7)
  targets = [{"group": g, "value": 1} for g in (group, group, other)]
  predictions = [{"value": value} for value in (1, 0, 1)]
  scores = question_answering.multirc(targets, predictions)
  assert scores["exact_match"] == 50
  targets = [{"group": g, "value": ["fox"]} for g in (group, group, other)]
  scores = question_answering.record(targets, ["fox", "sea", "fox"])
  assert scores == {"em": 100, "f1": 100}


def test_invalid_answers_of_multirc_are_wrong():
  targets, predictions = _answers_of({0: [(1, -1)], 1: [(0, -1)]})
  scores = question_answering.multirc(targets, predictions)
  assert scores == {"f1": 0, "exact_match": 0}


@pytest.mark.parametrize("form", [str, lambda text: {"value": text}])
def test_record_counts_a_query_once(form):
  targets = [
    {"group": (0, 0), "value": ["The Fox", "Foxes Inc."]},
    {"group": (0, 0), "value": ["The Fox", "Foxes Inc."]},
    {"group": (0, 1), "value": ["sea"]},
    {"group": (1, 0), "value": ["red sea"]},
  ]
  predictions = [form(text) for text in ("foxes inc", "fox", "fox", "sea")]
  assert question_answering.record(targets, predictions) == {
    "em": pytest.approx(100 / 3),
    "f1": pytest.approx((100 + 0 + 200 / 3) / 3),
  }


def test_targets_may_be_arrays_of_strings():
  targets = [np.array(["fox", "the sea"], object)]
  for metric in (question_answering.squad, question_answering.squad_v2):
    assert metric(targets, ["sea"])["em"] == 100
