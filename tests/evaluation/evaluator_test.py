"""The evaluator: weighting, order, what is kept, what is refused, journals."""

import dataclasses
import json
import math

import numpy as np
import pytest

from transformer_zoo.data.loader import evaluation_split
from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import evaluator
from transformer_zoo.evaluation.journal import Journal
from transformer_zoo.evaluation.scorers.text import TextScorer

METRICS = "transformer_zoo.evaluation.metrics.classification"
ANSWERS = "transformer_zoo.evaluation.answers.post_processors"
TEXTS = ["zero", "one", "two", "three", "four"]
# What a split that is grouped by length may come in.
ORDER = np.array([3, 0, 4, 1, 2])


class Words:
  """Decodes id n as the n-th word; 0 is padding."""

  def decode(self, ids, *, skip_special_tokens=False):
    del skip_special_tokens
    return " ".join(TEXTS[i - 10] for i in ids if i)


@dataclasses.dataclass
class Task:
  """What the evaluator reads of a prepared task."""

  scoring: manifest.Scoring | None
  name: str = "numbers"
  template_of: str | None = None
  vocabulary: Words = dataclasses.field(default_factory=Words)


class Split:
  """Five examples in batches of two; the last row of the last is filling."""

  truncated = {"inputs": 1}

  def __init__(self, task, split, lengths, batch_size, *, max_examples, **_):
    if split != "validation":
      raise UserError(f"no split {split!r}")
    assert (lengths, batch_size) == ({"inputs": 1, "targets": 1}, 2)
    self.num_examples = max_examples or 5
    self._order = ORDER[ORDER < self.num_examples]

  def __iter__(self):
    for start in range(0, self.num_examples, 2):
      places = self._order[start : start + 2]
      ids = np.zeros((2, 1), np.int32)
      ids[: len(places), 0] = 10 + places
      yield evaluation_split.EvaluationBatch(
        {"encoder_input_tokens": ids},
        places,
        [
          {"inputs_pretokenized": str(i), "targets_pretokenized": TEXTS[i]}
          for i in places
        ],
        [{"inputs": row, "targets": row} for row in ids[: len(places)]],
        inputs=ids,
        input_lengths=(ids[:, 0] > 0).astype(np.int32),
      )


@pytest.fixture(autouse=True)
def batches(monkeypatch):
  monkeypatch.setattr(evaluation_split, "EvaluationSplit", Split)


def example_sums(params, batch):
  """Example `two` has a loss of 6 and one target; the others 1 and two."""
  is_two = batch["encoder_input_tokens"][:, 0] == 12
  return {
    "loss_sum": np.where(is_two, 6.0, 1.0),
    "correct_sum": np.ones(len(is_two)),
    "weight_sum": np.where(is_two, 1.0, 2.0),
  }


def generate(params, *, inputs_BM, lengths_B, example_ids_B, limits_B):
  """Repeats the input, except that `two` is mistaken for `three`."""
  # Rows without an example end at once.
  np.testing.assert_array_equal(limits_B > 0, inputs_BM[:, 0] > 0)
  np.testing.assert_array_equal(lengths_B, inputs_BM[:, 0] > 0)
  return np.where(inputs_BM == 12, 13, np.minimum(inputs_BM, 14))


@pytest.fixture
def make_evaluator():
  def make(**changes):
    scorer = {"example_sums": example_sums, "generate": generate}
    for name in [*changes]:
      if name in ("generate", "example_sums", "decoding"):
        scorer[name] = changes.pop(name)
    settings = {
      "scorer": TextScorer(**scorer),
      "put": lambda batch: batch,
      "fetch": np.asarray,
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
  assert result.loss == pytest.approx((4 * 1 + 6) / 9)
  assert result.accuracy == 5 / 9


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
  def fail(*_, **__):
    raise AssertionError("decoded for nothing")

  result = make_evaluator(generate=fail)(None, Task(scoring), "validation")
  assert result.scores == {}
  assert result.loss == pytest.approx(10 / 9)
  assert result.num_examples == 5 and result.truncated == {"inputs": 1}
  compared = [
    [row[name] for row in result.predictions]
    for name in ("target_answer", "answer")
  ]
  assert compared == [[2, 2, 1, 2, 2], [1] * 5]
  (metric,) = result.scoring.metrics
  found = function_references.resolve(metric)(*compared)
  assert found == {"token_accuracy": pytest.approx(100 * result.accuracy)}
  (metric,) = result.scoring.score_metrics
  log_likelihoods = [row["log_likelihood"] for row in result.predictions]
  found = function_references.resolve(metric)(compared[0], log_likelihoods)
  assert found == {"loss": pytest.approx(result.loss)}


def test_refuses_what_cannot_be_opened(make_evaluator):
  assert make_evaluator().open(scored(), "validation").num_examples == 5
  with pytest.raises(UserError, match="no split 'test'"):
    make_evaluator().open(scored(), "test")


@pytest.mark.parametrize(
  "scoring",
  [
    manifest.Scoring(None, ({"function": f"{METRICS}:gone", "kwargs": {}},)),
    manifest.Scoring(None, (), ({"function": "gone:metric", "kwargs": {}},)),
    manifest.Scoring({"function": f"{ANSWERS}:gone", "kwargs": {}}, ()),
  ],
)
def test_scoring_that_moved_is_told_before_anything_is_decoded(
  make_evaluator, scoring
):
  with pytest.raises(UserError, match="gone.* cannot be imported here"):
    make_evaluator().open(Task(scoring), "validation")


def test_lines_of_a_task_of_targets_alone(make_evaluator, monkeypatch):
  class Targets(Split):
    def __iter__(self):
      for batch in super().__iter__():
        texts = [
          {"targets_pretokenized": text["targets_pretokenized"]}
          for text in batch.texts
        ]
        ids = [{"targets": some["targets"]} for some in batch.ids]
        yield dataclasses.replace(batch, texts=texts, ids=ids)

  monkeypatch.setattr(evaluation_split, "EvaluationSplit", Targets)
  result = make_evaluator()(None, scored(), "validation")
  assert [line["inputs"] for line in result.predictions] == [""] * 5
  assert [line["targets"] for line in result.predictions] == TEXTS


def test_lines_hold_answers_and_likelihoods(make_evaluator):
  postprocess = {
    "function": f"{ANSWERS}:string_label_to_class_id",
    "kwargs": {"label_classes": TEXTS[:3]},
  }
  result = make_evaluator()(None, scored(postprocess=postprocess), "validation")
  assert result.predictions[2] == {
    "inputs": "2",
    "targets": "two",
    "prediction": "three",
    "answer": -1,
    "target_answer": 2,
    "log_likelihood": -6.0,
    "target_tokens": 1,
  }
  assert result.invalid == 3  # `three` is no class here, and came twice.
  assert result.answers == [0, 1, -1, -1, -1]


def likelihoods(targets, scores):
  """A score metric over `sides` below."""
  assert [side["ids"] for side in targets] == [[10], [11], [12], [13], [14]]
  return {"lowest": min(scores), "place": scores.index(min(scores))}


def sides(answer, example=None, is_target=False):
  assert is_target, "there is no text to post-process"
  return {"text": answer, "ids": example["targets"].tolist()}


def test_score_metrics_get_likelihoods_and_nothing_is_decoded(
  make_evaluator, monkeypatch
):
  found = {"sides": sides, "likelihoods": likelihoods}
  monkeypatch.setattr(
    "transformer_zoo.data.storage.function_references.resolve",
    lambda reference: found[reference["function"]],
  )
  sides_, likelihoods_ = ({"function": name, "kwargs": {}} for name in found)
  scoring = manifest.Scoring(sides_, (), (likelihoods_,))

  def fail(*_, **__):
    raise AssertionError("decoded for nothing")

  result = make_evaluator(generate=fail)(None, Task(scoring), "validation")
  assert result.scores == {"lowest": -6.0, "place": 2.0}
  assert "prediction" not in result.predictions[0]
  assert result.predictions[0]["target_answer"] == {"text": "zero", "ids": [10]}


def test_perplexity_counts_the_words_of_the_scored_tokens(make_evaluator):
  """Whatever the task makes of its texts: here classes."""
  classes = {
    "function": f"{ANSWERS}:string_label_to_class_id",
    "kwargs": {"label_classes": TEXTS},
  }
  metric = "transformer_zoo.evaluation.metrics.perplexity:perplexity"
  scoring = manifest.Scoring(classes, (), ({"function": metric, "kwargs": {}},))
  result = make_evaluator()(None, Task(scoring), "validation")
  assert [line["target_words"] for line in result.predictions] == [1] * 5
  assert result.scores == {
    "word_perplexity": pytest.approx(math.exp(10 / 5)),
    "perplexity": pytest.approx(math.exp(10 / 9)),
  }


@pytest.mark.parametrize(
  "task", [scored(), Task(manifest.Scoring(None, (), ()))]
)
def test_hidden_targets_are_decoded_and_not_scored(make_evaluator, task):
  result = make_evaluator()(None, task, "validation", measured=False)
  assert result.scores == {}
  assert result.answers == ["zero", "one", "three", "three", "four"]


class TestJournal:
  FINGERPRINT = {"model": "a", "checkpoint": "b"}

  @pytest.fixture
  def run(self, make_evaluator, tmp_path):
    """Evaluates with the journal until `generate` has been called n times."""
    path = tmp_path / "numbers.journal"
    reports = []

    def call(most=None, fingerprint=self.FINGERPRINT):
      calls = []

      def counted(params, **read):
        if len(calls) == most:
          raise KeyboardInterrupt
        calls.append(read)
        return generate(params, **read)

      with Journal(path, fingerprint, report=reports.append) as journal:
        result = make_evaluator(generate=counted)(
          None, scored(), "validation", journal=journal
        )
      return result, len(calls)

    call.path, call.reports = path, reports
    return call

  @pytest.mark.parametrize("most", [0, 1, 2])
  def test_an_interrupted_evaluation_continues(self, run, most):
    whole, _ = run()
    expected = run.path.read_bytes()
    run.path.unlink()
    with pytest.raises(KeyboardInterrupt):
      run(most)
    result, calls = run()
    # A batch is written when the next one is under way.
    assert calls == 3 - max(most - 1, 0)
    assert result.predictions == whole.predictions
    assert (result.scores, result.loss) == (whole.scores, whole.loss)
    assert run.path.read_bytes() == expected

  @pytest.mark.parametrize("lost", [1, 7, 40])
  def test_a_line_that_was_cut_short_is_done_again(self, run, lost):
    whole, _ = run()
    expected = run.path.read_bytes()
    run.path.write_bytes(expected[:-lost])
    result, calls = run()
    assert calls == 1 and result.predictions == whole.predictions
    assert run.path.read_bytes() == expected

  def test_another_evaluation_starts_anew_and_is_named(self, run):
    run()
    _, calls = run(fingerprint=self.FINGERPRINT | {"checkpoint": "c"})
    assert calls == 3
    assert run.reports == [
      f"{run.path} is of another evaluation (checkpoint): it is made anew"
    ]
    _, calls = run(fingerprint=self.FINGERPRINT | {"checkpoint": "c"})
    assert calls == 0

  def test_what_is_no_journal_is_made_anew(self, run):
    run.path.write_text("[]")
    _, calls = run()
    assert calls == 3
    assert "(it cannot be read)" in run.reports[0]
    assert len(json.loads(run.path.read_text().splitlines()[1])) == 2
