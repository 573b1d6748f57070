"""Impossible answers, by the answer functions as they are."""

import functools

import pytest

from transformer_zoo.evaluation.answers import invalid_answers
from transformer_zoo.evaluation.answers import post_processors


@pytest.mark.parametrize(
  "function, kwargs, texts, expected",
  [
    (
      "string_label_to_class_id",
      {"label_classes": ["no", "yes"]},
      ["no", "maybe", "", "yes"],
      2,
    ),
    (
      "string_label_to_class_id",
      {"label_classes": ["no", "yes"], "default": 2},
      ["no", "maybe"],
      1,
    ),
    ("string_to_float", {}, ["3.2", "-1", "-1.0", "nan", "x"], 2),
    ("string_to_float", {"default": 0.0}, ["3.2", "x"], 1),
    ("spelled_number", {}, ["0", "- 1 3 . 5", "", "1 -", "<extra_id_0>"], 3),
    (
      "spelled_number_right_to_left",
      {},
      ["0", "5 . 3 1 -", "", "- 1", "<extra_id_0>"],
      3,
    ),
    ("wsc_simple", {}, ["Bob", "the", "", "Tom"], 2),
    ("multirc", {}, ["True", "true", "", "False", "no"], 3),
    ("span_qa", {}, ["start: 3 end: 6", "start: 3", ""], 2),
    ("bracketed_entities", {}, ["[ EU | ORG ] rejects", "", "other"], 2),
    ("qa", {}, ["", "a"], None),
    ("lower_text", {}, ["", "a"], None),
  ],
)
def test_count_invalid(function, kwargs, texts, expected):
  answer = functools.partial(getattr(post_processors, function), **kwargs)
  example = {"targets_pretokenized": "Bob", "tokens": ["EU", "rejects"]}
  reference = {
    "function": f"{post_processors.__name__}:{function}",
    "kwargs": kwargs,
  }
  predictions = [answer(text, example=example) for text in texts]
  found = invalid_answers.count_invalid(reference, predictions, texts)
  assert found == expected


def test_count_invalid_of_other_functions():
  assert invalid_answers.count_invalid(None, ["", "a"], ["", "a"]) is None
  foreign = {"function": "elsewhere:string_to_float", "kwargs": {}}
  assert invalid_answers.count_invalid(foreign, [-1.0], ["x"]) is None
