"""The evaluator: weighting, order, post-processing, what is refused."""

import dataclasses

import numpy as np
import pytest

from transformer_zoo.data import loader
from transformer_zoo.data import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import evaluator

METRICS = "transformer_zoo.evaluation.metrics"
ANSWERS = "transformer_zoo.evaluation.answers"
TEXTS = ["zero", "one", "two", "three", "four"]


class Words:
  """Decodes id n as the n-th word; 0 is padding."""

  def decode(self, ids):
    return " ".join(TEXTS[i - 10] for i in ids if i)


@dataclasses.dataclass
class Task:
  """What the evaluator reads of a prepared task."""

  scoring: manifest.Scoring | None
  name: str = "numbers"
  vocabulary: Words = dataclasses.field(default_factory=Words)


@pytest.fixture(autouse=True)
def batches(monkeypatch):
  """Five examples in batches of two; the last row of the last is filling."""

  def evaluation_batches(task, *, split, lengths, batch_size, max_examples):
    if split != "validation":
      raise UserError(f"no split {split!r}")
    assert (lengths, batch_size) == ({"inputs": 1, "targets": 1}, 2)
    number = 5 if max_examples is None else max_examples
    return (
      (
        {"encoder_input_tokens": np.array([[start + 10], [start + 11]])},
        [
          {"inputs_pretokenized": str(i), "targets_pretokenized": TEXTS[i]}
          for i in range(start, min(start + 2, number))
        ],
      )
      for start in range(0, number, 2)
    )

  monkeypatch.setattr(loader, "evaluation_batches", evaluation_batches)


def sums(params, batch):
  # The third batch has one row: its loss must count half.
  weight = 1.0 if batch["encoder_input_tokens"][0, 0] == 14 else 2.0
  return {
    "loss_sum": weight * (6.0 if weight == 1.0 else 1.0),
    "correct_sum": weight,
    "weight_sum": 2 * weight,
  }


def generate(params, inputs):
  """Repeats the input, except that `two` is mistaken for `three`."""
  return np.where(inputs == 12, 13, np.minimum(inputs, 14))


@pytest.fixture
def make_evaluator():
  def make(**changes):
    settings = {
      "generate": generate,
      "sums": sums,
      "put": lambda batch: batch,
      "lengths": {"inputs": 1, "targets": 1},
      "batch_size": 2,
    }
    return evaluator.Evaluator(**settings | changes)

  return make


def scored(name="accuracy", postprocess=None):
  metric = {"function": f"{METRICS}:{name}", "kwargs": {}}
  return Task(manifest.Scoring(postprocess, (metric,)))


def test_loss_is_a_mean_over_tokens_and_not_over_batches(make_evaluator):
  result = make_evaluator()(None, scored(), "validation")
  assert result.loss == pytest.approx((2 + 2 + 6) / 10)
  assert result.accuracy == 0.5


def test_predictions_keep_their_order_and_leave_out_filling(make_evaluator):
  result = make_evaluator()(None, scored(), "validation")
  assert [row["inputs"] for row in result.predictions] == list("01234")
  assert [row["targets"] for row in result.predictions] == TEXTS
  assert [row["prediction"] for row in result.predictions] == [
    "zero",
    "one",
    "three",
    "three",
    "four",
  ]
  assert result.scores == {"accuracy": 80.0}


def test_so_many_examples_at_most(make_evaluator):
  result = make_evaluator(max_examples=2)(None, scored(), "validation")
  assert result.scores == {"accuracy": 100.0} and len(result.predictions) == 2


@pytest.mark.parametrize("scoring", [None, manifest.Scoring(None, ())])
def test_without_metrics_nothing_is_decoded(make_evaluator, scoring):
  def fail(*_):
    raise AssertionError("decoded for nothing")

  result = make_evaluator(generate=fail)(None, Task(scoring), "validation")
  assert result.scores == {} and result.predictions == []
  assert result.loss == 1.0


def test_check_refuses_what_a_call_would(make_evaluator):
  make_evaluator().check(scored(), "validation")
  with pytest.raises(UserError, match="no split 'test'"):
    make_evaluator().check(scored(), "test")


def test_answers_are_post_processed_on_both_sides():
  postprocess = {
    "function": f"{ANSWERS}:string_label_to_class_id",
    "kwargs": {"label_classes": ["no", "yes"]},
  }
  scoring = scored(postprocess=postprocess).scoring
  examples = [{"targets_pretokenized": text} for text in ("no", "yes", "yes")]
  scores = evaluator.score(scoring, examples, ["no", "maybe", "yes"])
  assert scores == {"accuracy": pytest.approx(200 / 3)}


def test_several_metrics_are_joined():
  metrics = tuple(
    {"function": f"{METRICS}:{name}", "kwargs": {}}
    for name in ("accuracy", "sequence_accuracy")
  )
  examples = [{"targets_pretokenized": "a b c d"}]
  scores = evaluator.score(
    manifest.Scoring(None, metrics), examples, ["a b c d"]
  )
  assert scores == {"accuracy": 100.0, "sequence_accuracy": 100.0}
  assert all(type(value) is float for value in scores.values())


def test_as_many_predictions_as_examples():
  with pytest.raises(ValueError, match="shorter"):
    evaluator.score(scored().scoring, [], ["a"])
