"""Natural Questions with all answers: the examples of t5_closed_book_qa."""

import pytest
import seqio

import mixtures  # noqa: F401 (registers them)
from tasks.benchmarks import natural_questions as _tasks  # noqa: F401
from tests.tasks import tfds_rows
from transformer_zoo.data.storage import function_references
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import question_answering

TASKS = ["natural_questions_nocontext", "natural_questions_nocontext_test"]


def _row(question, texts, yes_no):
  return {
    "question": {"text": question},
    "annotations": {
      "short_answers": {
        "text": texts,
        **{
          name: [[0] * len(some) for some in texts]
          for name in ("start_token", "end_token", "start_byte", "end_byte")
        },
      },
      "yes_no_answer": yes_no,
    },
  }


# The rows of its `preprocessors_test.py`.
ROWS = [
  _row("is the answer to this question no", [[], []], [-1, -1]),
  _row(
    "is the answer to this question yes",
    [["not sure sir"], [], ["not sure"], []],
    [-1, 0, -1, 1],
  ),
  _row(
    "what are the names of the olsen twins",
    [["Mary-Kate", "Ashley"], []],
    [-1, -1],
  ),
]


@pytest.mark.parametrize("task", TASKS)
def test_rows_of_the_original(task):
  examples = tfds_rows.text_of(task, *ROWS)
  assert [(x["inputs"].decode(), x["targets"].decode()) for x in examples] == [
    (
      "nq question: is the answer to this question yes",
      "answer: no answer: yes answer: not sure sir answer: not sure",
    ),
    (
      "nq question: what are the names of the olsen twins",
      "answer: Mary-Kate answer: Ashley",
    ),
  ]
  post = seqio.TaskRegistry.get(task).postprocess_fn
  assert [post("", example=x, is_target=True) for x in examples] == [
    [["not sure sir"], ["no"], ["not sure"], ["yes"]],
    [["Mary-Kate", "Ashley"], []],
  ]


def test_answers():
  found = post_processors.all_answers("answer: yes answer: This is  correct ")
  assert found == ["yes", "This is  correct"]
  for text in ("", "yes", "the answer is yes"):
    assert post_processors.all_answers(text) == []
  # As prepared data has them.
  example = {"annotations": [["a", "B"], [], ["yes"]]}
  found = post_processors.all_answers("", example, is_target=True)
  assert found == [["a", "B"], [], ["yes"]]


# Golden values of its `metrics_test.py`.
TARGETS = [
  [("yes",), ("no",), ("yes",), ("maybe",)],
  [("Ashley", "Mary-Kate"), ("Ashley and Mary-Kate",)],
  [("Colin", "Adam")],
  [("yes",), ("yes",), ("yes",)],
  [("no", "not really"), ("no",), ()],
  [("no", "not really"), ("no",), ()],
]
PREDICTIONS = [
  ("yes",),
  ("Mary-Kate", "Ashley"),
  ("Colin", "Adam"),
  ("no",),
  ("no", "Not  really"),
  (),
]


@pytest.mark.parametrize(
  "min_annotators, expected", [(2, 3 / 5), (1, 4 / 6), (3, 1 / 2), (4, 1.0)]
)
def test_recall(min_annotators, expected):
  found = question_answering.natural_questions_recall(
    TARGETS, PREDICTIONS, min_annotators=min_annotators
  )
  assert found == pytest.approx({"recall": 100 * expected})


def test_no_question_that_counts_is_told():
  with pytest.raises(
    UserError,
    match="None of the 2 questions has the answers of 2 annotators, so that no "
    "recall can be given",
  ):
    question_answering.natural_questions_recall(
      [[["a"]], [[], []]], [["a"], []]
    )


@pytest.mark.parametrize("task", TASKS)
def test_scoring_needs_no_seqio(task):
  scoring = function_references.describe_scoring(seqio.TaskRegistry.get(task))
  function_references.resolve(scoring.postprocess)
  (metric,) = scoring.metrics
  assert function_references.resolve(metric)([[["a"], ["a"]]], [["A."]]) == {
    "recall": 100
  }


def test_the_closed_book_mixtures():
  for name, ending in (
    ("closed_book_qa", ""),
    ("closed_book_qa_test", "_test"),
  ):
    members = {task.name for task in seqio.MixtureRegistry.get(name).tasks}
    assert members == {
      f"trivia_qa_open{ending}",
      f"natural_questions_open{ending}",
      f"web_questions_open{ending}",
    }
