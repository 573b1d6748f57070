"""Metrics against the goldens of t5's `metrics_test.py`, and their edges."""

import functools
import json
import subprocess
import sys

import pytest

from transformer_zoo.evaluation import metrics
from transformer_zoo.evaluation import question_answering
from transformer_zoo.evaluation import text_overlap

MODULES = (metrics, question_answering, text_overlap)
QA_TARGETS = [
  ["big moose", "hippo"],
  ["correct1"],
  ["correct2.1", "correct2.2"],
  ["a", "b"],
]
QA_PREDICTIONS = ["‘a big  Moose!‘", "wrong", "correct2.2", "c"]
TEXT = "this is a string"


def named(metric):
  (found,) = (m for m in MODULES if hasattr(m, metric))
  return getattr(found, metric)


@pytest.mark.parametrize(
  "metric, targets, predictions, expected",
  [
    ("accuracy", [0, 0, 2, 1], [0, 1, 2, 1], {"accuracy": 75}),
    (
      "matthews_corrcoef",
      [0, 0, 2, 1],
      [0, 1, 2, 1],
      {"matthews_corrcoef": 70},
    ),
    ("f1_score_with_invalid", [0, 1, 1, 0], [0, 1, 2, 2], {"f1": 50}),
    (
      "f1_and_accuracy",
      [0, 1, 1, 0],
      [0, 1, -1, -1],
      {"f1": 50, "accuracy": 50},
    ),
    ("pearson_corrcoef", [0, 2], [0, 1], {"pearson_corrcoef": 100}),
    ("spearman_corrcoef", [0, 2, 1], [0, 1, 2], {"spearman_corrcoef": 50}),
    ("squad", [["abc abd", "$$$$"]], ["abd"], {"em": 0, "f1": 200 / 3}),
    ("squad", [["", TEXT], [TEXT, TEXT]], [TEXT] * 2, {"em": 100, "f1": 100}),
    ("squad", [[TEXT, TEXT]] * 2, ["", ""], {"em": 0, "f1": 0}),
    ("squad", QA_TARGETS, QA_PREDICTIONS, {"em": 25, "f1": 35}),
    ("trivia_qa", QA_TARGETS, QA_PREDICTIONS, {"em": 50, "f1": 50}),
    (
      "sequence_accuracy",
      ["this is a string.", "this is a completely different string."],
      ["this is a string."] * 2,
      {"sequence_accuracy": 50},
    ),
    ("bleu", [TEXT] * 2, [TEXT] * 2, {"bleu": 100}),
    ("bleu", [TEXT] * 2, ["", ""], {"bleu": 0}),
    ("bleu", [["", TEXT], [TEXT, ""]], [TEXT] * 2, {"bleu": 100}),
    (
      "rouge",
      [TEXT] * 2,
      [TEXT] * 2,
      {"rouge1": 100, "rouge2": 100, "rougeLsum": 100},
    ),
    (
      "rouge",
      [TEXT] * 2,
      ["", ""],
      {"rouge1": 0, "rouge2": 0, "rougeLsum": 0},
    ),
  ],
)
def test_goldens(metric, targets, predictions, expected):
  actual = named(metric)(targets, predictions)
  assert actual == pytest.approx(expected, abs=5e-3)
  assert list(actual) == list(expected)
  json.dumps(actual)


def test_mean_multiclass_f1():
  metric = functools.partial(metrics.mean_multiclass_f1, num_classes=3)
  assert metric([0, 1, 1, 2], [0, 0, 2, 2]) == {
    "mean_3class_f1": pytest.approx(44.44444)
  }


def test_predictions_are_left_alone():
  predictions = [0, 1, -1]
  metrics.f1_and_accuracy([0, 1, 1], predictions)
  assert predictions == [0, 1, -1]


@pytest.mark.parametrize(
  "metric", ["matthews_corrcoef", "pearson_corrcoef", "spearman_corrcoef"]
)
@pytest.mark.parametrize(
  "targets, predictions", [([], []), ([1], [1]), ([0, 1, 1], [-1, -1, -1])]
)
@pytest.mark.filterwarnings("error")
def test_undefined_correlations_are_zero(metric, targets, predictions):
  assert named(metric)(targets, predictions) == {metric: 0.0}


@pytest.mark.filterwarnings("error")
def test_f1_without_any_positive_is_zero():
  assert metrics.f1_score_with_invalid([0, 0], [0, 0]) == {"f1": 0.0}


@pytest.mark.parametrize("metric", ["accuracy", "squad", "rouge", "bleu"])
def test_no_example_scores_zero(metric):
  assert set(named(metric)([], []).values()) == {0.0}


@pytest.mark.parametrize("metric", ["accuracy", "squad", "rouge"])
def test_unequal_lengths_are_refused(metric):
  with pytest.raises(ValueError):
    named(metric)(["a", "b"], ["a"])


def test_bleu_takes_any_number_of_references():
  references = [["the cat sat down", "a cat was sitting"]] * 3
  predictions = ["a cat was sitting", "the cat sat down", "the cat sat down"]
  assert text_overlap.bleu(references, predictions) == {
    "bleu": pytest.approx(100)
  }


def test_bleu_by_hand():
  # By hand: 10 of 12 words, 5 of 10, 2 of 8 and 1 of 6 longer n-grams match,
  # 12 words against 14 of the references: exp(1 - 14 / 12) * (1 / 57.6)^0.25.
  actual = text_overlap.bleu(
    ["The cat sat on the mat, quietly.", "It is raining today."],
    ["The cat sat on a mat quietly.", "It rains today."],
  )
  assert actual == {"bleu": pytest.approx(30.72642)}


def test_rouge_breaks_sentences_and_is_the_mean():
  # Summary-level LCS takes each sentence of the target on its own, so swapped
  # sentences still match; the second document shares one word of two.
  actual = text_overlap.rouge(
    ["a b . c d .", "e f"],
    ["c d . a b .", "e g"],
  )
  assert actual == {
    "rouge1": pytest.approx(75),
    "rouge2": pytest.approx(100 / 3),
    "rougeLsum": pytest.approx(75),
  }


def test_import_loads_no_heavy_package():
  code = (
    "import sys, transformer_zoo.evaluation.question_answering, "
    "transformer_zoo.evaluation.text_overlap, "
    "transformer_zoo.evaluation.metrics, transformer_zoo.evaluation.tagging, "
    "transformer_zoo.evaluation.answers, transformer_zoo.evaluation.averages; "
    "print({'sklearn', 'scipy', 'sacrebleu', 'rouge_score', 'tensorflow', "
    "'seqio'} & set(sys.modules))"
  )
  done = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  )
  assert done.stdout.strip() == "set()"
