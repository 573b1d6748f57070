"""A task's own scoring: post-processing of both sides, metrics joined."""

import pytest

from transformer_zoo.data import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import task_scores

EVALUATION = "transformer_zoo.evaluation"


def refer(name, **kwargs):
  return {"function": f"{EVALUATION}.{name}", "kwargs": kwargs}


def score(scoring, targets, texts, log_likelihoods=()):
  examples = [{"targets_pretokenized": text} for text in targets]
  found = task_scores.post_process(scoring, examples, texts)
  return task_scores.measure(scoring, found, log_likelihoods, "mine"), found


def test_answers_are_post_processed_on_both_sides():
  scoring = manifest.Scoring(
    refer("answers:string_label_to_class_id", label_classes=["no", "yes"]),
    (refer("metrics:accuracy"),),
  )
  scores, found = score(scoring, ["no", "yes", "yes"], ["no", "maybe", "yes"])
  assert scores == {"accuracy": pytest.approx(200 / 3)}
  assert found == task_scores.Answers([0, 1, 1], [0, -1, 1], invalid=1)


def test_several_metrics_are_joined():
  scoring = manifest.Scoring(
    None, (refer("metrics:accuracy"), refer("text_overlap:bleu"))
  )
  scores, found = score(scoring, ["a b c d"], ["a b c d"])
  assert scores == {"accuracy": 100.0, "bleu": pytest.approx(100.0)}
  assert all(type(value) is float for value in scores.values())
  assert task_scores.signature(scoring, found).startswith("nrefs:1|")


def test_without_bleu_there_is_no_signature():
  scoring = manifest.Scoring(None, (refer("metrics:accuracy"),))
  _, found = score(scoring, ["a"], ["a"])
  assert task_scores.signature(scoring, found) is None


def test_metrics_of_one_name_are_refused():
  """The later one would replace the other's value."""
  metric = refer("metrics:accuracy")
  with pytest.raises(
    UserError,
    match="Two metrics of task 'mine' are both called 'accuracy'; wrap one in "
    "a function that names its value otherwise.",
  ):
    score(manifest.Scoring(None, (metric, metric)), ["a"], ["a"])


def test_as_many_predictions_as_examples():
  scoring = manifest.Scoring(None, (refer("metrics:accuracy"),))
  with pytest.raises(ValueError, match="longer"):
    score(scoring, ["a", "b"], ["a"])
