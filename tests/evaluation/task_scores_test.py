"""A task's own scoring: post-processing of both sides, metrics joined."""

import dataclasses

import numpy as np
import pytest

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import task_scores

EVALUATION = "transformer_zoo.evaluation"


def refer(name, **kwargs):
  return {"function": f"{EVALUATION}.{name}", "kwargs": kwargs}


@dataclasses.dataclass
class Scalar:
  """As seqio.metrics.Scalar."""

  value: float


def of_scalars(targets, predictions):
  del predictions
  return {"scalar": Scalar(len(targets)), "array": np.ones(1)[0]}


def of_text(targets, predictions):
  del targets, predictions
  return {"table": "| a | b |"}


def by_kind(answer, example=None, is_target=False, prefix=""):
  """Written for SeqIO, whose examples have bytes and arrays."""
  del is_target
  assert example["kind"] == b"city" and example["answers"].shape == (2,)
  (where, number), empty = example["places"]["rows"], example["empty"]
  assert (where, number + 1, empty.size) == (b"north", 2, 0)
  assert example["spans"].mean() == 1.5 and example["targets"].size == 1
  assert [part.tolist() for part in example["ragged"]] == [[1], [2, 3]]
  answers = [text.decode() for text in example["answers"]]
  return prefix + answer if answer in answers else "other"


EXAMPLE = {
  "targets_pretokenized": "Köln",
  "kind": "city",
  "answers": ["Köln", "Bonn"],
  "spans": [[0, 1], [2, 3]],
  "ragged": [[1], [2, 3]],
  "places": {"rows": ["north", 1]},
  "empty": [],
  "targets": np.array([5], np.int32),
}


def refer_here(function, **kwargs):
  return {"function": f"{__name__}:{function.__name__}", "kwargs": kwargs}


def score(scoring, targets, texts, log_likelihoods=()):
  examples = [{"targets_pretokenized": text} for text in targets]
  found = task_scores.post_process(scoring, examples, texts)
  return task_scores.measure(scoring, found, log_likelihoods, "mine"), found


def test_answers_are_post_processed_on_both_sides():
  scoring = manifest.Scoring(
    refer(
      "answers.post_processors:string_label_to_class_id",
      label_classes=["no", "yes"],
    ),
    (refer("metrics.classification:accuracy"),),
  )
  scores, found = score(scoring, ["no", "yes", "yes"], ["no", "maybe", "yes"])
  assert scores == {"accuracy": pytest.approx(200 / 3)}
  assert found == task_scores.Answers([0, 1, 1], [0, -1, 1], invalid=1)


def test_several_metrics_are_joined():
  scoring = manifest.Scoring(
    None,
    (
      refer("metrics.classification:accuracy"),
      refer("metrics.text_overlap:bleu"),
    ),
  )
  scores, found = score(scoring, ["a b c d"], ["a b c d"])
  assert scores == {"accuracy": 100.0, "bleu": pytest.approx(100.0)}
  assert all(type(value) is float for value in scores.values())
  assert task_scores.signature(scoring, found).startswith("nrefs:1|")


def test_without_bleu_there_is_no_signature():
  scoring = manifest.Scoring(None, (refer("metrics.classification:accuracy"),))
  _, found = score(scoring, ["a"], ["a"])
  assert task_scores.signature(scoring, found) is None


def test_metrics_of_one_name_are_refused():
  """The later one would replace the other's value."""
  metric = refer("metrics.classification:accuracy")
  with pytest.raises(
    UserError,
    match="Two metrics of task 'mine' are both called 'accuracy'; wrap one in "
    "a function that names its value otherwise.",
  ):
    score(manifest.Scoring(None, (metric, metric)), ["a"], ["a"])


def test_as_many_predictions_as_examples():
  scoring = manifest.Scoring(None, (refer("metrics.classification:accuracy"),))
  with pytest.raises(ValueError, match="longer"):
    score(scoring, ["a", "b"], ["a"])


@pytest.mark.parametrize("sentinels", ["", "<extra_id_0>"])
def test_functions_of_users_get_examples_as_seqio_gives_them(sentinels):
  """Under sentinels too, whose own function is ours."""
  post = refer_here(by_kind, prefix="in ")
  if sentinels:
    name = "answers.post_processors:without_sentinels"
    post = refer(name, sentinels=sentinels, postprocess=post)
  scoring = manifest.Scoring(post, (refer("metrics.classification:accuracy"),))
  texts = [f"{sentinels} Bonn".strip(), "Ulm"]
  found = task_scores.post_process(scoring, [EXAMPLE, EXAMPLE], texts)
  assert found.targets == ["in Köln", "in Köln"]
  assert found.predictions == ["in Bonn", "other"]


def test_ours_get_them_as_they_are_prepared():
  scoring = manifest.Scoring(refer("answers.post_processors:qa"), ())
  found = task_scores.post_process(scoring, [EXAMPLE], ["Ulm"])
  assert found.targets == [["Köln", "Bonn"]]


def test_scalars_of_seqio_are_numbers():
  scoring = manifest.Scoring(None, (refer_here(of_scalars),))
  scores, _ = score(scoring, ["a", "b"], ["a", "b"])
  assert scores == {"scalar": 2.0, "array": 1.0}
  assert all(type(value) is float for value in scores.values())


def of_many(targets, predictions):
  del predictions
  raise ValueError(f"{len(targets)} are too few")


def test_names_are_known_before_anything_is_predicted():
  post = refer(
    "answers.post_processors:string_label_to_class_id",
    label_classes=["no", "yes"],
  )
  examples = [{"targets_pretokenized": text} for text in ("no", "yes")]
  of_scores = manifest.Scoring(None, (), (refer_here(of_scalars),))
  for scoring, expected in (
    (
      manifest.Scoring(post, (refer("metrics.classification:accuracy"),)),
      {"accuracy", "invalid"},
    ),
    (of_scores, {"scalar", "array"}),
    (manifest.Scoring(None, (refer_here(of_scalars),)), {"scalar", "array"}),
    (manifest.Scoring(None, (refer_here(of_many),)), None),
  ):
    assert task_scores.names(scoring, examples, "mine") == expected


def test_a_value_that_is_no_number_is_named():
  with pytest.raises(
    UserError,
    match="The metric .*task_scores_test:of_text of task 'mine' gives 'table' "
    "as str, which is no number; give a number or seqio.metrics.Scalar, or "
    "leave it out.",
  ):
    score(manifest.Scoring(None, (refer_here(of_text),)), ["a"], ["a"])
