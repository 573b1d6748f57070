"""Metrics: t5's goldens, a second computation by hand, and their edges."""

import functools
import json
import math
import random
import subprocess
import sys

import numpy as np
import pytest

from transformer_zoo.evaluation.metrics import classification

NAN = math.nan
mean_3class_f1 = functools.partial(
  classification.mean_multiclass_f1, num_classes=3
)


@pytest.mark.parametrize(
  "metric, targets, predictions, expected",
  [
    (classification.accuracy, [0, 0, 2, 1], [0, 1, 2, 1], {"accuracy": 75}),
    (
      classification.accuracy_by_kind,
      ["a", "b", "a", "a", "b"],
      [1.0, 0.5, 0.0, 1.0, 1.0],
      {"a": 200 / 3, "b": 75},
    ),
    (
      classification.matthews_corrcoef,
      [0, 0, 2, 1],
      [0, 1, 2, 1],
      {"matthews_corrcoef": 70},
    ),
    (
      classification.f1_score_with_invalid,
      [0, 1, 1, 0],
      [0, 1, 2, 2],
      {"f1": 50},
    ),
    (
      classification.f1_and_accuracy,
      [0, 1, 1, 0],
      [0, 1, -1, -1],
      {"f1": 50, "accuracy": 50},
    ),
    (
      mean_3class_f1,
      [0, 1, 1, 2],
      [0, 0, 2, 2],
      {"mean_3class_f1": 400 / 9},
    ),
    (
      classification.pearson_corrcoef,
      [0, 2],
      [0, 1],
      {"pearson_corrcoef": 100},
    ),
    (
      classification.spearman_corrcoef,
      [0, 2, 1],
      [0, 1, 2],
      {"spearman_corrcoef": 50},
    ),
    (
      classification.sequence_accuracy,
      ["this is a string.", "this is a completely different string."],
      ["this is a string."] * 2,
      {"sequence_accuracy": 50},
    ),
  ],
)
def test_goldens(metric, targets, predictions, expected):
  actual = metric(targets, predictions)
  assert actual == pytest.approx(expected, abs=5e-3)
  assert list(actual) == list(expected)
  json.dumps(actual)


@pytest.fixture(params=range(20))
def classes(request):
  """Targets of three classes and predictions of four, of 1 to 40 examples."""
  rng = random.Random(request.param)
  number = rng.randrange(1, 40)
  targets = [rng.randrange(3) for _ in range(number)]
  predictions = [
    t if rng.random() < 0.6 else rng.randrange(-1, 3) for t in targets
  ]
  return targets, predictions


def _f1(targets, predictions, label):
  right = sum(
    t == p == label for t, p in zip(targets, predictions, strict=True)
  )
  total = targets.count(label) + predictions.count(label)
  return 200 * right / total if total else 0.0


def test_mean_f1_by_counting(classes):
  expected = np.mean([_f1(*classes, label) for label in range(3)])
  assert mean_3class_f1(*classes) == {"mean_3class_f1": pytest.approx(expected)}


def test_f1_with_invalid_by_counting(classes):
  targets, predictions = ([x % 2 for x in classes[0]], classes[1])
  filled = [
    p if p in (0, 1) else 1 - t
    for t, p in zip(targets, predictions, strict=True)
  ]
  actual = classification.f1_score_with_invalid(targets, predictions)
  assert actual == {"f1": pytest.approx(_f1(targets, filled, 1))}


def test_matthews_correlation_is_the_correlation_of_indicators(classes):
  targets, predictions = (
    (np.array(side)[:, None] == np.arange(-1, 3)).astype(float)
    for side in classes
  )
  targets, predictions = (
    targets - targets.mean(0),
    predictions - predictions.mean(0),
  )
  scale = np.sqrt((targets**2).sum() * (predictions**2).sum())
  expected = 100 * (targets * predictions).sum() / scale if scale else 0.0
  actual = classification.matthews_corrcoef(*classes)
  assert actual == {"matthews_corrcoef": pytest.approx(expected, abs=1e-9)}


def test_predictions_are_left_alone():
  predictions = [0, 1, -1]
  classification.f1_and_accuracy([0, 1, 1], predictions)
  assert predictions == [0, 1, -1]


@pytest.mark.parametrize(
  "metric", ["matthews_corrcoef", "pearson_corrcoef", "spearman_corrcoef"]
)
@pytest.mark.parametrize(
  "targets, predictions",
  [([], []), ([1], [1]), ([0, 1, 1], [-1, -1, -1]), ([2, 2], [0, 1])],
)
@pytest.mark.filterwarnings("error")
def test_undefined_correlations_are_zero(metric, targets, predictions):
  assert getattr(classification, metric)(targets, predictions) == {metric: 0.0}


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf])
@pytest.mark.parametrize("metric", ["pearson_corrcoef", "spearman_corrcoef"])
@pytest.mark.filterwarnings("error")
def test_correlations_with_what_is_no_number_are_zero(metric, value):
  correlate = getattr(classification, metric)
  assert correlate([1.0, 2.0, 3.0], [1.0, value, 2.0]) == {metric: 0.0}


@pytest.mark.filterwarnings("error")
def test_a_correlation_with_numbers_whose_sum_is_none_is_zero():
  found = classification.pearson_corrcoef([1.0, 2.0, 3.0], [1e308, 1e308, 3.0])
  assert found == {"pearson_corrcoef": 0.0}


def test_not_a_number_is_no_right_answer():
  assert classification.accuracy([NAN, 1.0], [NAN, 1.0]) == {"accuracy": 50}


@pytest.mark.filterwarnings("error")
def test_one_class_only():
  assert classification.f1_score_with_invalid([0, 0], [0, 0]) == {"f1": 0}
  assert classification.f1_score_with_invalid([1, 1], [1, 1]) == {"f1": 100}
  assert classification.f1_score_with_invalid([1, 1], [-1, -1]) == {"f1": 0}
  # A class that occurs on neither side counts with 0, as in scikit-learn.
  scores = mean_3class_f1([1, 1], [1, 1])
  assert scores == {"mean_3class_f1": pytest.approx(100 / 3)}
  assert mean_3class_f1([0, 1, 2], [-1, -1, -1]) == {"mean_3class_f1": 0}


def test_f1_of_targets_without_label_is_refused():
  with pytest.raises(
    ValueError,
    match=r"^the class ids of the targets are 0 and 1 for this F1, not -1 "
    r"\(-1 is a row without label\)$",
  ):
    classification.f1_score_with_invalid([0, 1, -1], [0, 1, 1])


RANKED = [
  # Question 0: choice 1 is right and has most tokens.
  (((0, 0), False, 1.0, 1), -2.0),
  (((0, 1), True, 1.0, 4), -4.0),
  # Question 1, weight 3: choice 0 is right and likeliest either way.
  (((1, 0), True, 3.0, 2), -1.0),
  (((1, 1), False, 3.0, 1), -8.0),
  (((1, 2), False, 3.0, 1), -math.inf),
]


@pytest.mark.parametrize("seed", range(5))
def test_rank_classification_in_any_order(seed):
  rows = random.Random(seed).sample(RANKED, len(RANKED))
  targets, scores = zip(*rows, strict=True)
  assert classification.rank_classification(targets, scores) == {"accuracy": 75}
  normalized = classification.rank_classification(
    targets, scores, length_normalized=True
  )
  assert normalized == {"accuracy": 100}


@pytest.mark.parametrize(
  "scores, expected", [([-1, -1], 0), ([NAN, -9], 100), ([NAN, NAN], 0)]
)
def test_rank_classification_of_equal_and_of_broken_choices(scores, expected):
  targets = [((7, 0), False, 1.0, 1), ((7, 1), True, 1.0, 1)]
  actual = classification.rank_classification(targets, scores)
  assert actual == {"accuracy": expected}


def test_several_choices_may_be_right():
  targets = [((0, i), i > 0, 1.0, 0) for i in range(3)]
  for scores, expected in (([-3, -2, -1], 100), ([-1, -2, -3], 0)):
    actual = classification.rank_classification(
      targets, scores, length_normalized=True
    )
    assert actual == {"accuracy": expected}


every_metric = pytest.mark.parametrize(
  "metric",
  [
    classification.accuracy,
    classification.sequence_accuracy,
    classification.matthews_corrcoef,
    classification.f1_score_with_invalid,
    classification.f1_and_accuracy,
    mean_3class_f1,
    classification.pearson_corrcoef,
    classification.spearman_corrcoef,
    classification.entity_f1,
    classification.rank_classification,
  ],
)


@every_metric
@pytest.mark.filterwarnings("error")
def test_no_example_scores_zero(metric):
  assert set(metric([], []).values()) == {0.0}


@every_metric
def test_unequal_lengths_are_refused(metric):
  name = (
    "scores" if metric is classification.rank_classification else "predictions"
  )
  with pytest.raises(
    ValueError,
    match=f"^2 targets and 1 {name}: a metric needs as many of both$",
  ):
    metric([0, 1], [0])


@every_metric
def test_values_are_floats_that_json_takes(metric):
  if metric is classification.entity_f1:
    targets = predictions = [[("PER", 0, 2)]]
  elif metric is classification.rank_classification:
    targets, predictions = zip(*RANKED, strict=True)
  else:
    targets, predictions = np.array([0, 1, 1]), np.array([0, 1, 0])
  for value in metric(targets, predictions).values():
    assert type(value) is float and 0 < value <= 100


def test_import_loads_no_heavy_package():
  code = (
    "import sys, transformer_zoo.evaluation.metrics.question_answering, "
    "transformer_zoo.evaluation.metrics.text_overlap, "
    "transformer_zoo.evaluation.metrics.classification, "
    "transformer_zoo.evaluation.answers.tagged_text, "
    "transformer_zoo.evaluation.answers.post_processors, "
    "transformer_zoo.evaluation.averages, "
    "transformer_zoo.evaluation.answers.invalid_answers; "
    "print({'sklearn', 'scipy', 'sacrebleu', 'rouge_score', 'tensorflow', "
    "'seqio'} & set(sys.modules))"
  )
  done = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  )
  assert done.stdout.strip() == "set()"


def _choices(*rights, row=0):
  """The targets of a question, with it and without it."""
  number = len(rights)
  return [
    ((row, choice), rights[choice % number], 1.0, 2)
    for choice in range(2 * number)
  ]


def test_the_choice_counts_that_its_question_makes_likelier_the_most():
  targets = _choices(False, True) + _choices(True, False, row=1)
  # The first choice is likelier by itself, in the first question alone.
  scores = [-2.0, -3.0, -2.0, -6.0] + [-3.0, -2.0, -3.0, -3.0]
  found = classification.rank_unconditional(targets, scores)
  assert found == {"accuracy": 50.0}
  shuffled = [3, 6, 0, 5, 1, 7, 2, 4]
  assert found == classification.rank_unconditional(
    [targets[i] for i in shuffled], [scores[i] for i in shuffled]
  )
  with pytest.raises(ValueError, match="each has to come with the question"):
    classification.rank_unconditional(targets[:3], scores[:3])


def test_acceptable_sentences_are_those_above_a_threshold():
  targets = [
    ((i, 0), right, 1.0, tokens)
    for i, (right, tokens) in enumerate(
      [(True, 2), (True, 4), (False, 2), (False, 4), (False, 2), (True, 2)]
    )
  ]
  # Means of -1, -1, -3, -2, -4 and -1.5.
  scores = [-2.0, -4.0, -6.0, -8.0, -8.0, -3.0]
  assert classification.acceptability(targets, scores) == {
    "matthews_at_median": 100.0,
    "matthews_at_best": 100.0,
  }
  wrong = classification.acceptability(targets, [-s for s in scores])
  assert wrong["matthews_at_median"] == -100.0
