"""Answers against the goldens of t5's `postprocessors_test.py`."""

import functools

import pytest

from transformer_zoo.evaluation.answers import post_processors


@pytest.mark.parametrize(
  "text, expected",
  [
    ("10", 10.0),
    ("10.", 10.0),
    ("3.8", 3.8),
    ("asdf", -1.0),
    ("", -1.0),
    ("nan", -1.0),
    ("inf", -1.0),
  ],
)
def test_string_to_float(text, expected):
  assert post_processors.string_to_float(text) == expected


def test_string_to_float_default():
  assert post_processors.string_to_float("asdf", default=-2.0) == -2.0


def test_lower_text():
  assert post_processors.lower_text("TeST") == "test"


@pytest.mark.parametrize(
  "text, expected", [("one", 0), ("two", 1), ("foo", -1), ("One", -1)]
)
def test_string_label_to_class_id(text, expected):
  answer = functools.partial(
    post_processors.string_label_to_class_id, label_classes=["one", "two"]
  )
  assert answer(text, example={}, is_target=False) == expected


def test_string_label_to_class_id_default():
  answer = post_processors.string_label_to_class_id
  assert answer("foo", label_classes=["one"], default=2) == 2


@pytest.mark.parametrize("accepted", [[b"a1", b"a2"], ["a1", "a2"]])
def test_qa(accepted):
  example = {"answers": accepted}
  assert post_processors.qa("answer", example, is_target=True) == ["a1", "a2"]
  assert post_processors.qa("answer", example, is_target=False) == "answer"


@pytest.mark.parametrize("label", [1, 0, -1])
def test_wsc_simple_target(label):
  assert (
    post_processors.wsc_simple("x", {"label": label}, is_target=True) == label
  )


@pytest.mark.parametrize(
  "prediction, referent, expected",
  [
    ("potato", b"turnip", 0),
    ("turnip", b"turnip", 1),
    ("turnip", "turnip", 1),
    ("the cat", b"cat", 1),
    ("Bob's hat", b"Bob", 0),
    ("Bob", b"Bob's hat", 0),
    ("Bob's hat", b"Bob's hat", 1),
    ("hat", b"Bob's hat", 0),
    ("Bob's hat", b"hat", 0),
    ("potato", b"Potato", 1),
    ("a potato", b"my potato", 1),
    ("fuzzy bunny", b"fuzzy hungry bunny", 1),
    ("fuzzy bunny", b"bunny", 1),
    ("", b"cat", -1),
    ("a this", b"cat", -1),
    ("Bob", b"his", 0),
    ("fuzzy bunny", b"hungry  bunny", 0),
  ],
)
def test_wsc_simple_prediction(prediction, referent, expected):
  example = {"targets_pretokenized": referent}
  assert post_processors.wsc_simple(prediction, example) == expected


@pytest.mark.parametrize("accepted", [[b"a1", b"a2"], ["a1", "a2"]])
def test_squad_v2(accepted):
  answer = functools.partial(post_processors.squad_v2, no_answer="unanswerable")
  assert answer("x", {"answers": accepted}, is_target=True) == ["a1", "a2"]
  assert answer("unanswerable", {"answers": []}, is_target=True) == []
  said = ["unanswerable", " Unanswerable. ", "It is unanswerable", "", "a1"]
  assert [answer(text) for text in said] == ["", "", said[2], "", "a1"]


@pytest.mark.parametrize("gaps_count", [False, True])
def test_span_qa(gaps_count):
  example = {"answers": [b"2"], "context": "a 2 - 0 ( \u00e9 ) b ".encode()}
  answer = functools.partial(post_processors.span_qa, gaps_count=gaps_count)
  assert answer("start: 1 end: 2", example) == "start: 1 end: 2"
  filled = "a 2 _ _ 0 _ _ _ _ _ _ b _"
  assert answer("", example, is_target=True) == {
    "answers": ["2"],
    "context": filled if gaps_count else "a 2 - 0 ( \u00e9 ) b ",
  }


def test_first_answer():
  assert post_processors.first_answer("a", is_target=True) == ["a"]
  assert post_processors.first_answer("a") == "a"
