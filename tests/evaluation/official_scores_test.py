"""SQuAD by a second implementation, on thousands of damaged answers."""

import functools
import random

import pytest

from tests.evaluation import official_rules
from transformer_zoo.evaluation.metrics import question_answering

NUMBER = 2000


@pytest.fixture(scope="module", params=["generated", "real"])
def questions(request):
  """Accepted answers and a perturbed prediction for each question."""
  if request.param == "real":
    rows = official_rules.real_rows(
      request.getfixturevalue("shared_data"), NUMBER
    )
  else:
    rows = official_rules.generated_rows(NUMBER)
  rng = random.Random(1)
  return [
    (answers, official_rules.perturb(rng, answers, context))
    for answers, context in rows
  ]


@pytest.fixture(scope="module")
def unanswerable_too(questions):
  """The same with a third of the questions unanswerable, a third declined."""
  rng = random.Random(2)
  return [
    ([] if rng.random() < 1 / 3 else answers, prediction)
    if rng.random() < 2 / 3
    else (rng.choice([answers, []]), "")
    for answers, prediction in questions
  ]


@pytest.mark.slow
def test_squad_is_the_official_score(questions):
  targets, predictions = zip(*questions, strict=True)
  expected = [official_rules.score_v1(*question) for question in questions]
  assert question_answering.squad(targets, predictions) == pytest.approx(
    official_rules.mean(expected), abs=1e-9
  )
  # One by one: in a mean, errors of opposite sign could cancel.
  for (answers, prediction), (em, f1) in zip(questions, expected, strict=True):
    assert question_answering.squad([answers], [prediction]) == pytest.approx(
      {"em": 100 * em, "f1": 100 * float(f1)}, abs=1e-9
    ), (answers, prediction)
  # Perturbed, not destroyed: all kinds of score occur.
  overlaps = [f1 for _, f1 in expected]
  assert {0, 1} < set(overlaps) and len(set(overlaps)) > 15


@pytest.mark.slow
def test_squad_v2_is_the_official_score(unanswerable_too):
  targets, predictions = zip(*unanswerable_too, strict=True)
  expected = [official_rules.score_v2(*row) for row in unanswerable_too]
  scores = official_rules.mean(expected)
  for prefix, answerable in (("has_answer", True), ("no_answer", False)):
    part = official_rules.mean(
      [
        score
        for score, answers in zip(expected, targets, strict=True)
        if bool(answers) == answerable
      ]
    )
    scores |= {f"{prefix}_{name}": value for name, value in part.items()}
  actual = question_answering.squad_v2(targets, predictions)
  assert actual == pytest.approx(scores, abs=1e-9)
  for row, (em, f1) in zip(unanswerable_too, expected, strict=True):
    one = question_answering.squad_v2([row[0]], [row[1]])
    assert (one["em"], one["f1"]) == pytest.approx(
      (100 * em, 100 * float(f1)), abs=1e-9
    ), row


@pytest.mark.parametrize(
  "metric", [question_answering.squad, question_answering.trivia_qa]
)
def test_more_accepted_answers_never_lower_a_score(metric, questions):
  rng = random.Random(3)
  for answers, prediction in questions[:300]:
    fewer = metric([answers[:1]], [prediction])
    more = metric(
      [[*answers, rng.choice(official_rules.VOCABULARY)]], [prediction]
    )
    assert fewer["em"] <= more["em"] and fewer["f1"] <= more["f1"]


@pytest.mark.slow
@pytest.mark.parametrize(
  "metric",
  [
    question_answering.squad,
    question_answering.squad_v2,
    question_answering.trivia_qa,
  ],
)
def test_the_order_of_questions_does_not_matter(metric, questions):
  shuffled = random.Random(4).sample(questions, len(questions))
  first = metric(*zip(*questions, strict=True))
  second = metric(*zip(*shuffled, strict=True))
  assert first == pytest.approx(second, abs=1e-9)


def test_the_second_implementation_knows_its_golden():
  score = functools.partial(official_rules.score_v1, ["abc abd", "$$$$"])
  assert score("abd")[0] == 0
  assert float(score("abd")[1]) == pytest.approx(2 / 3)
  assert official_rules.score_v1(["the Fox!"], "a fox") == (1, 1)
  assert official_rules.score_v2([], "the") == (1, 1)
