"""Our metrics against those of the t5 package: make test-oracles.

On thousands of random and damaged values; each set is scored as a whole, and
where an error could cancel in the mean, example by example too.
"""

import functools
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from tests.evaluation import official_rules
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.metrics import text_overlap

ROOT = pathlib.Path(__file__).resolve().parents[3]
T5_PACKAGE = pathlib.Path(sys.prefix) / "t5_package"
NUMBER = 2000
OURS = {
  "accuracy": classification.accuracy,
  "bleu": text_overlap.bleu,
  "f1_score_with_invalid": classification.f1_score_with_invalid,
  "matthews_corrcoef": classification.matthews_corrcoef,
  "mean_3class_f1": functools.partial(
    classification.mean_multiclass_f1, num_classes=3
  ),
  "multirc": question_answering.multirc,
  "pearson_corrcoef": classification.pearson_corrcoef,
  "rank_classification": classification.rank_classification,
  "rank_classification_normalized": functools.partial(
    classification.rank_classification, length_normalized=True
  ),
  "record": question_answering.record,
  "rouge": text_overlap.rouge,
  "sequence_accuracy": classification.sequence_accuracy,
  "span_squad": question_answering.span_squad,
  "spearman_corrcoef": classification.spearman_corrcoef,
  "squad": question_answering.squad,
  "trivia_qa": question_answering.trivia_qa,
}
EACH = ("squad", "trivia_qa", "span_squad")
# The middle of 1,000 bootstrap samples against the mean; in percent.
TOLERANCE = {"rouge": 0.3}


def some_classes(rng, number, count):
  """Targets of `count` classes; a prediction in ten is none of them."""
  targets = [rng.randrange(count) for _ in range(number)]
  targets[:count] = range(count)
  predictions = [
    -1 if rng.random() < 0.1 else rng.choice([t, rng.randrange(count)])
    for t in targets
  ]
  return targets, predictions


def some_questions(rng):
  """Accepted answers, contexts, and damaged answers."""
  rows = list(official_rules.generated_rows(NUMBER))
  predictions = [official_rules.perturb(rng, *row) for row in rows]
  return *zip(*rows, strict=True), predictions


def some_positions(rng, context):
  """A place in the context, or text that is none."""
  number = len(context.split()) + 3
  start = rng.randrange(number)
  place = f"start: {start} end: {start + rng.randrange(-1, 6)}"
  others = ("", "start: 3", "start: a end: b", context, place.replace(":", ""))
  return place if rng.random() < 0.8 else rng.choice(others)


def some_choices(rng):
  """Targets and scores of rank classification, shuffled."""
  rows = []
  for question in range(NUMBER // 3):
    count, weight = rng.randrange(2, 6), rng.choice([1.0, 1.0, 0.5])
    right = rng.sample(range(count), rng.choice([1, 1, 1, 2]))
    for choice in range(count):
      target = ((question, choice), choice in right, weight)
      score = rng.choice([-rng.random() * 20, -5.0, -10.0])
      rows.append(((*target, rng.randrange(1, 9)), score))
  rng.shuffle(rows)
  return tuple(map(list, zip(*rows, strict=True)))


def cases():
  """(name of the metric, targets, predictions)."""
  rng = random.Random(7)
  for number in (30, NUMBER):
    for name in ("accuracy", "matthews_corrcoef", "mean_3class_f1"):
      yield (name, *some_classes(rng, number, 3))
    yield ("f1_score_with_invalid", *some_classes(rng, number, 2))
    numbers = [round(rng.random() * 5, 1) for _ in range(number)]
    damaged = [
      -1.0 if rng.random() < 0.05 else round(n + rng.gauss(0, 1), 1)
      for n in numbers
    ]
    yield "pearson_corrcoef", numbers, damaged
    yield "spearman_corrcoef", numbers, damaged
  accepted, contexts, predictions = some_questions(rng)
  yield "squad", accepted, predictions
  yield "trivia_qa", accepted, predictions
  spans = [
    {"answers": answers, "context": context}
    for answers, context in zip(accepted, contexts, strict=True)
  ]
  yield "span_squad", spans, [some_positions(rng, c) for c in contexts]
  queries = [
    {"value": answers, "group": (i // 5, i // 2 % 2)}
    for i, answers in enumerate(accepted)
  ]
  yield "record", queries, [{"value": text} for text in predictions]
  for invalid in (0, 1):
    labels, guesses = some_classes(rng, NUMBER, 2)
    if not invalid:
      guesses = [max(guess, 0) for guess in guesses]
    yield (
      "multirc",
      [{"value": t, "group": rng.randrange(500)} for t in labels],
      [{"value": p} for p in guesses],
    )
  yield ("rank_classification", *some_choices(rng))
  yield ("rank_classification_normalized", *some_choices(rng))
  references = [answers[0] for answers in accepted]
  yield "sequence_accuracy", references, predictions
  yield (
    "bleu",
    contexts,
    [official_rules.perturb(rng, [context], context) for context in contexts],
  )
  yield (
    "rouge",
    contexts,
    [official_rules.perturb(rng, [context], context) for context in contexts],
  )


@pytest.fixture(scope="module")
def compared():
  """[(case, t5's scores, t5's scores of each example or None)]."""
  if not T5_PACKAGE.is_dir():
    pytest.skip(f"no {T5_PACKAGE}: `make test-oracles` installs it")
  all_cases = list(cases())
  requests = [
    {"metric": name, "targets": targets, "predictions": predictions}
    for name, targets, predictions in all_cases
  ]
  requests = [request | {"each": False} for request in requests] + [
    request | {"each": True}
    for request in requests
    if request["metric"] in EACH
  ]
  done = subprocess.run(
    [sys.executable, "-m", "tests.oracles.t5.t5_metrics"],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": str(T5_PACKAGE)},
    input=json.dumps(requests),
    stdout=subprocess.PIPE,
    text=True,
    encoding="utf-8",
    check=True,
  )
  results = json.loads(done.stdout)
  each = iter(results[len(all_cases) :])
  return [
    (case, result, next(each) if case[0] in EACH else None)
    for case, result in zip(all_cases, results, strict=False)
  ]


@pytest.mark.parametrize("name", OURS)
def test_scores_are_those_of_t5(compared, report, name):
  found = [row for row in compared if row[0][0] == name]
  assert found
  for (_, targets, predictions), theirs, each in found:
    ours = OURS[name](targets, predictions)
    assert ours == pytest.approx(theirs, abs=TOLERANCE.get(name, 1e-9))
    assert all(0 < value < 100 for value in ours.values())
    report(name, max(abs(ours[k] - theirs[k]) / theirs[k] for k in ours))
    if each is None:
      continue
    for target, prediction, expected in zip(
      targets, predictions, each, strict=True
    ):
      one = OURS[name]([target], [prediction])
      assert one == pytest.approx(expected, abs=1e-9), (target, prediction)
