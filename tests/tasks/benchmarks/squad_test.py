"""SQuAD as text: t5's strings, places of answers, version 2.0, real rows."""

import pytest
import seqio
import tensorflow as tf

import tasks  # noqa: F401
from tasks.formats import question_answering as formats
from tests.tasks import tfds_rows

_ROW = {
  "id": "testid",
  "context": "Some context.",
  "question": "A question?",
  "answers": {"text": ["The answer.", "Another answer."]},
}


@pytest.mark.parametrize(
  "text, padded",
  [
    # Goldens of t5 preprocessors_test.py.
    (
      '"This  is a string with "punctuation (1845-1986) ".',
      ' " This is a string with " punctuation ( 1845 - 1986 ) " . ',
    ),
    ('"Introducción (la vídeo)".', ' " Introducción ( la vídeo ) " . '),
    # Only ASCII punctuation and white space count.
    ("“so”\u00a0it\u200bis…", "“so”\u00a0it\u200bis…"),
    ("a\t\n\f\r b\vc", "a b\vc"),
    ("", ""),
  ],
)
def test_pad_punctuation(text, padded):
  assert formats.pad_punctuation(tf.constant(text)).numpy().decode() == padded


def test_squad_golden_of_t5():
  (example,) = tfds_rows.text_of("squad_v010_allanswers", _ROW)
  answers = example.pop("answers")
  assert example == {
    "inputs": b"question: A question ? context: Some context . ",
    "targets": b"The answer . ",
    "id": b"testid",
    "context": b"Some context . ",
    "question": b"A question ? ",
  }
  assert answers.tolist() == [b"The answer . ", b"Another answer . "]


def test_context_free():
  assert tfds_rows.texts_of("squad_v010_context_free", _ROW) == [
    ("squad trivia question: A question ? ", "The answer . ")
  ]


def test_hidden_answers():
  row = _ROW | {"answers": {"text": []}}
  (example,) = tfds_rows.text_of("squad_v010_allanswers", row)
  assert example["targets"] == b"<unk>"
  assert example["answers"].size == 0


def test_span():
  cases = [
    # Goldens of t5 preprocessors_test.py.
    ("Called the Denver Broncos.", "Denver Broncos", "start: 2 end: 3"),
    ("Called the Denver Broncos.", "Denver Bronscos", None),
    ("context with the answer.", "the answer", "start: 2 end: 3"),
    # Signs become spaces, and a place is counted between any two.
    ("In (or near) it, a 2-0 win.", "2-0", "start: 11 end: 14"),
    # The first of two matches.
    ("a b a b c", "a b", "start: 0 end: 1"),
    # At the very end, where t5 does not look.
    ("called the Denver Broncos", "Denver Broncos", None),
    ("short", "much longer than it", None),
  ]
  rows = [
    _ROW | {"id": str(i), "context": context, "answers": {"text": [answer]}}
    for i, (context, answer, _) in enumerate(cases)
  ]
  found = {
    int(example["id"]): example["targets"].decode()
    for example in tfds_rows.text_of("squad_v010_allanswers_span", *rows)
  }
  assert found == {i: p for i, (_, _, p) in enumerate(cases) if p is not None}


def test_a_predicted_place_is_scored_by_its_words():
  task = seqio.TaskRegistry.get("squad_v010_allanswers_span")
  row = _ROW | {
    "context": "It (the team) is called the Denver 2-0 Broncos, here.",
    "answers": {"text": ["Denver 2-0 Broncos"]},
  }
  (example,) = tfds_rows.text_of("squad_v010_allanswers_span", row)
  target = task.postprocess_fn("", example=example, is_target=True)
  (metric,) = task.metric_fns
  assert example["targets"] == b"start: 10 end: 15"
  # t5's metric counts no gaps between the signs: it would take 6 to 9.
  for text, em in [
    ("start: 10 end: 15", 100),
    ("start: 9 end: 15", 100),  # with an article
    ("start: 11 end: 15", 0),
    ("start: 6 end: 9", 0),
    ("?", 0),
  ]:
    prediction = task.postprocess_fn(text, example=example, is_target=False)
    assert metric([target], [prediction])["em"] == em


def test_squad_v2():
  task = seqio.TaskRegistry.get("squad_v2_v030_allanswers")
  (metric,) = task.metric_fns
  cases = [
    (["Rollo"], "Rollo", "Rollo", 100),
    (["Rollo"], "Rollo", "unanswerable", 0),
    ([], "unanswerable", "unanswerable", 100),
    ([], "unanswerable", " Unanswerable.", 100),
    ([], "unanswerable", "Rollo", 0),
    ([], "unanswerable", "", 100),
  ]
  rows = [
    _ROW | {"answers": {"text": case[0]}, "is_impossible": not case[0]}
    for case in cases
  ]
  examples = tfds_rows.text_of("squad_v2_v030_allanswers", *rows)
  for example, (answers, target, prediction, em) in zip(
    examples, cases, strict=True
  ):
    assert example["inputs"] == (
      b"question: A question ? context: Some context . "
    )
    assert example["targets"].decode() == target
    accepted = task.postprocess_fn(target, example=example, is_target=True)
    assert accepted == answers
    said = task.postprocess_fn(prediction, example=example, is_target=False)
    assert metric([accepted], [said])["em"] == em


def test_the_deprecated_task_scores_the_first_answer_alone():
  task = seqio.TaskRegistry.get("squad_v010")
  target = task.postprocess_fn("The answer . ", example={}, is_target=True)
  (metric,) = task.metric_fns
  assert metric([target], ["answer"]) == {"em": 100, "f1": 100}
  assert metric([target], ["another answer"])["em"] == 0


@pytest.mark.slow
def test_real_rows(shared_data, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  task = seqio.TaskRegistry.get("squad_v010_allanswers")
  assert task.num_input_examples("train") == 87_599
  assert task.num_input_examples("validation") == 10_570
  dataset = task.source.get_dataset("validation", shuffle=False)
  told = dataset.filter(lambda x: x["id"] == "56be4db0acb8001400a502ee")
  (example,) = formats.squad(told).as_numpy_iterator()
  inputs = example["inputs"].decode()
  assert inputs.startswith(
    "question: Where did Super Bowl 50 take place ? context: Super Bowl 50 was "
  )
  assert "at Levi ' s Stadium in" in inputs
  assert example["targets"] == b"Santa Clara , California"
  assert b"Levi ' s Stadium" in example["answers"]
