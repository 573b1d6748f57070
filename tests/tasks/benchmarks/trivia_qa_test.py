"""TriviaQA with its passages, and questions without passages."""

import json
import types

import numpy as np
import pytest
import seqio
import tensorflow as tf

import tasks  # noqa: F401
from tasks.formats import question_answering as formats
from tests.tasks import tfds_rows
from transformer_zoo.corruption import draws
from transformer_zoo.data import trimming


def _trivia(question, aliases, wiki=(), search=(), value=""):
  return {
    "question": question,
    "entity_pages": {
      "wiki_context": list(wiki),
      "title": [""] * len(wiki),
      "filename": [""] * len(wiki),
      "doc_source": [""] * len(wiki),
    },
    "search_results": {
      "search_context": list(search),
      "title": [""] * len(search),
      "filename": [""] * len(search),
      "description": [""] * len(search),
      "url": [""] * len(search),
      "rank": [0] * len(search),
    },
    "answer": {
      "normalized_aliases": [a.lower() for a in aliases],
      "aliases": aliases,
      "value": value,
    },
  }


def test_golden_of_t5():
  row = _trivia(
    "What is the answer?",
    ["key", "keys"],
    wiki=[
      "The answer to all questions is the key.",
      "The answer to all questions are the keys.",
    ],
  )
  start = "question: What is the answer ? context: The answer to all questions "
  assert tfds_rows.texts_of("trivia_qa_v010", row) == [
    (start + "is the key . ", "key"),
    (start + "are the keys . ", "key"),
    (start + "are the keys . ", "keys"),
  ]


def test_wikipedia_comes_before_the_web_and_case_does_not_matter():
  row = _trivia("Who?", ["Ann"], wiki=["ANN sang."], search=["Ann", "Bob"])
  assert tfds_rows.texts_of("trivia_qa_v010", row) == [
    ("question: Who ? context: ANN sang . ", "ann"),
    ("question: Who ? context: Ann", "ann"),
  ]


def test_no_passage_has_the_answer():
  row = _trivia("Who?", ["Ann"], wiki=["Bob sang."])
  unanswered = _trivia("Who?", [], wiki=["Bob sang."])
  assert not tfds_rows.texts_of("trivia_qa_v010", row, unanswered)


def test_signs_in_an_answer_are_no_regular_expression():
  cases = [
    ("c++", "written in C++ .", True),
    ("c++", "written in C .", False),
    ("(", "an open ( here", True),
    (".", "no full stop", False),
    ("a\\b", "path a\\b", True),
  ]
  rows = [
    _trivia(f"Q{i}", [answer], wiki=[passage])
    for i, (answer, passage, _) in enumerate(cases)
  ]
  found = [text for text, _ in tfds_rows.texts_of("trivia_qa_v010", *rows)]
  assert [text.split()[1] for text in found] == [
    f"Q{i}" for i, (_, _, is_there) in enumerate(cases) if is_there
  ]


def _windows(inputs, targets, length, count=60):
  dataset = tf.data.Dataset.from_tensors(
    {
      "inputs": tf.constant(inputs, tf.int32),
      "targets": tf.constant(targets, tf.int32),
    }
  ).repeat(count)
  with seqio.utils.map_seed_manager(0):
    cut = formats.keep_answer_in_window(
      dataset, sequence_length=length and {"inputs": length}
    )
  return [x["inputs"].tolist() for x in cut.as_numpy_iterator()]


@pytest.mark.usefixtures("translated")
def test_every_window_with_the_answer_and_no_other():
  inputs = list(range(10, 30))
  windows = _windows(inputs, [15, 16], 4)
  assert {tuple(w) for w in windows} == {
    (13, 14, 15, 16),
    (14, 15, 16, 17),
    (15, 16, 17, 18),
  }
  at_the_start = _windows(inputs, [10], 4, 20)
  assert {tuple(w) for w in at_the_start} == {(10, 11, 12, 13)}
  at_the_end = _windows(inputs, [29], 4, 20)
  assert {tuple(w) for w in at_the_end} == {(26, 27, 28, 29)}


@pytest.mark.usefixtures("translated")
def test_short_inputs_are_kept_and_lost_answers_dropped():
  assert _windows([1, 2, 3], [9], 3, 1) == [[1, 2, 3]]
  assert _windows([1, 2, 3, 4], [9], 3, 1) == []


@pytest.mark.usefixtures("translated")
def test_windows_recorded_from_t5():
  # t5 0.9.4 `trivia_qa_truncate_inputs` under `map_seed_manager(0)`.
  starts = [w[0] for w in _windows(range(100), [40, 41], 16, 12)]
  assert starts == [39, 40, 27, 27, 33, 33, 29, 28, 37, 37, 29, 30]


@pytest.mark.usefixtures("translated")
def test_without_lengths_inputs_stay_whole_if_they_have_the_answer():
  assert _windows(range(2_000), [1_000], None, 1) == [[*range(2_000)]]
  assert _windows(range(2_000), [2_001], None, 1) == []
  assert _windows(range(512), [2_001], None, 1) == [[*range(512)]]


def test_prepared_windows_are_drawn_when_they_are_read():
  task = seqio.TaskRegistry.get("trivia_qa_v010")
  spec = trimming.find(task.preprocessors)
  rule = trimming.from_spec(json.loads(json.dumps(spec)))
  tokens = {
    "inputs": np.array([*range(10, 30), 1]),
    "targets": np.array([15, 16, 1]),
  }

  def windows(tokens, length):
    return {
      tuple(
        rule(
          tokens,
          {},
          {"inputs": length, "targets": 8},
          vocabulary=types.SimpleNamespace(eos_id=1),
          draws=draws.Draws(0, [place]),
        )["inputs"].tolist()
      )
      for place in range(60)
    }

  assert windows(tokens, 4) == {
    (13, 14, 15, 16, 1),
    (14, 15, 16, 17, 1),
    (15, 16, 17, 18, 1),
  }
  assert windows(tokens, 20) == {(*range(10, 30), 1)}
  # The answer is longer than the window.
  assert windows(tokens, 1) == {(16, 1)}
  lost = tokens | {"targets": np.array([16, 15, 1])}
  assert windows(lost, 4) == {(*range(10, 30), 1)}


@pytest.mark.parametrize(
  "task, row, inputs, target, accepted",
  [
    (
      "natural_questions_open",
      {"question": "who are they", "answer": ["Ann", "Bob"]},
      "nq question: who are they",
      "Ann",
      ["Ann", "Bob"],
    ),
    (
      "web_questions_open_test",
      {"question": "who is he?", "answers": ["Padmé Amidala"], "url": "u"},
      "wq question: who is he?",
      "Padmé Amidala",
      ["Padmé Amidala"],
    ),
    (
      "trivia_qa_open",
      _trivia("Which colour?", ["Scarlet", "Red"], value="Red"),
      "trivia_qa question: Which colour?",
      "Red",
      ["Scarlet", "Red"],
    ),
    (
      "web_questions_open",
      {"question": "who?", "answers": [], "url": "u"},
      "wq question: who?",
      "<unk>",
      [],
    ),
  ],
)
def test_closed_book(task, row, inputs, target, accepted):
  (example,) = tfds_rows.text_of(task, row)
  assert example["inputs"].decode() == inputs
  assert example["targets"].decode() == target
  task = seqio.TaskRegistry.get(task)
  answers = task.postprocess_fn(target, example=example, is_target=True)
  assert answers == accepted
  (metric,) = task.metric_fns
  if accepted:
    assert metric([answers], [f"the {accepted[-1]}"])["em"] == 100


def test_closed_book_splits():
  splits = {
    name: seqio.TaskRegistry.get(name).source.splits
    for name in ("natural_questions_open", "trivia_qa_open_test")
  }
  # Without the datasets on disk, all splits that a task can have.
  assert splits == {
    "natural_questions_open": {
      "train": "train[:79168]",
      "validation": "train[79168:]",
      "test": "validation",
    },
    "trivia_qa_open_test": {"train": "train+validation", "test": "test"},
  }
