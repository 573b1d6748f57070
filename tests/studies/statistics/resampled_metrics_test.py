"""Metrics of resamples are those of examples that are really repeated."""

import functools

import numpy as np
import pytest

from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.metrics import text_overlap
from transformer_zoo.studies.statistics import resampled_metrics
from transformer_zoo.studies.statistics import study_resamples

N = 40
RNG = np.random.default_rng(0)


def _text():
  return " ".join(RNG.choice([*"abcdefg"], size=RNG.integers(1, 9)))


def _texts():
  return [_text() for _ in range(N)]


def _ids(low, high):
  return RNG.integers(low, high, N).tolist()


def _entities():
  return [[["PER", int(i), 3] for i in _ids(0, 4)[:k]] for k in _ids(0, 3)]


def _user_metric(targets, predictions):
  return {"mine": float(np.max(np.subtract(targets, predictions)))}


CASES = {
  "accuracy": (classification.accuracy, _ids(0, 3), _ids(0, 3)),
  "by_kind": (
    classification.accuracy_by_kind,
    [f"kind {i % 2}" for i in range(N)],
    [0.5, *_ids(0, 2)[1:]],
  ),
  "matthews": (classification.matthews_corrcoef, _ids(0, 2), _ids(-1, 2)),
  "always_one": (classification.matthews_corrcoef, _ids(0, 2), [1] * N),
  "f1": (classification.f1_score_with_invalid, _ids(0, 2), _ids(-1, 2)),
  "f1_and_accuracy": (classification.f1_and_accuracy, _ids(0, 2), _ids(-1, 2)),
  "mean_f1": (
    functools.partial(classification.mean_multiclass_f1, num_classes=3),
    _ids(0, 3),
    _ids(-1, 3),
  ),
  "pearson": (classification.pearson_corrcoef, _ids(0, 26), _ids(-1, 26)),
  "constant": (classification.pearson_corrcoef, _ids(0, 26), [0.1] * N),
  "infinite": (
    classification.pearson_corrcoef,
    _ids(0, 26),
    [float("inf"), *_ids(0, 26)[1:]],
  ),
  "spearman": (classification.spearman_corrcoef, _ids(0, 26), _ids(0, 5)),
  "squad": (
    question_answering.squad,
    [[a, b] for a, b in zip(_texts(), _texts(), strict=True)],
    _texts(),
  ),
  "squad_v2": (
    question_answering.squad_v2,
    [[_text()] * k for k in _ids(0, 2)],
    [_text() * k for k in _ids(0, 2)],
  ),
  "multirc": (
    question_answering.multirc,
    [{"group": [i // 4, 0], "value": v} for i, v in enumerate(_ids(0, 2))],
    [{"value": value} for value in _ids(-1, 2)],
  ),
  "record": (
    question_answering.record,
    [{"group": i // 4, "value": [_text()]} for i in range(N)],
    _texts(),
  ),
  "rouge": (text_overlap.rouge, _texts(), _texts()),
  "token_accuracy": (classification.token_accuracy, _ids(1, 9), _ids(0, 2)),
  "token_loss": (
    classification.token_loss,
    _ids(1, 9),
    (-RNG.random(N)).tolist(),
  ),
  "bleu": (text_overlap.bleu, _texts(), _texts()),
  "entities": (classification.entity_f1, _entities(), [None, *_entities()[1:]]),
  "rank_classification": (
    functools.partial(
      classification.rank_classification, length_normalized=True
    ),
    [([i // 4, i % 4], i % 4 == 1, 1 + i // 4, 3) for i in range(N)],
    (-RNG.random(N)).tolist(),
  ),
  "user": (_user_metric, _ids(0, 9), _ids(0, 9)),
}


def _renamed(target, unit, copy):
  """The target in a copy of its question, which is a question of its own."""
  if isinstance(target, dict) and "group" in target:
    return target | {"group": [unit, copy]}
  if isinstance(target, tuple):
    return ([unit, copy, target[0][1]], *target[1:])
  return target


@pytest.mark.parametrize("name", CASES)
def test_a_metric_on_counts_is_the_metric_on_repeated_examples(name):
  metric, targets, predictions = CASES[name]
  of_unit = resampled_metrics.units(metric, targets)
  num_units = of_unit.max() + 1
  once = np.ones((1, num_units), int)
  uniform = np.full(num_units, 1 / num_units)
  drawn = np.random.default_rng(1).multinomial(num_units, uniform, size=3)
  counts_BU = np.concatenate([once, drawn])
  function = resampled_metrics.of_metric(metric, targets, predictions)
  found = function(counts_BU[:, of_unit].astype(float))
  for resample, counts_U in enumerate(counts_BU):
    repeated = [
      (_renamed(targets[i], unit, copy), predictions[i])
      for unit, count in enumerate(counts_U)
      for copy in range(count)
      for i in np.flatnonzero(of_unit == unit)
    ]
    for value_name, value in metric(*zip(*repeated, strict=True)).items():
      assert found[value_name][resample] == pytest.approx(value, abs=1e-9)


def test_questions_are_drawn_with_all_of_their_answers():
  metric, targets, _ = CASES["multirc"]
  assert resampled_metrics.units(metric, targets).tolist() == [
    i // 4 for i in range(N)
  ]
  metric, targets, _ = CASES["rank_classification"]
  assert len(set(resampled_metrics.units(metric, targets))) == N // 4
  assert (
    len(set(resampled_metrics.units(classification.accuracy, [0] * N))) == N
  )


def test_a_resample_that_a_users_metric_refuses_has_no_value():
  def refuses(targets, predictions):
    if len(set(targets)) < 2:
      raise ValueError("Only one class present")
    return {"auc": 0.5}

  of = resampled_metrics.of_metric(refuses, [0, 1], [0.2, 0.8])
  values = of(np.array([[1.0, 1.0], [2.0, 0.0]]))["auc"]
  assert values[0] == 0.5 and np.isnan(values[1])


def test_a_resample_without_a_kind_has_no_value_of_it():
  of = resampled_metrics.of_metric(
    classification.accuracy_by_kind, ["a", "b"], [1.0, 0.5]
  )
  values = of(np.array([[1.0, 1.0], [2.0, 0.0]]))
  assert values["a"].tolist() == [100.0, 100.0]
  assert values["b"][0] == 50.0 and np.isnan(values["b"][1])


def test_a_users_metric_is_known_to_be_slow():
  assert not resampled_metrics.is_known(_user_metric)
  assert all(
    resampled_metrics.is_known(metric)
    for name, (metric, *_) in CASES.items()
    if name != "user"
  )


def test_resamples_are_the_same_for_every_run_of_a_task(monkeypatch):
  seen = []

  def function(counts_BN):
    seen.append(counts_BN)
    return {"first": counts_BN[:, 0]}

  of_unit = np.arange(50) // 2
  once = study_resamples.resample_task(
    "task", of_unit, 30, [function, function]
  )
  assert (once[0]["first"] == once[1]["first"]).all()
  assert (seen[0].sum(axis=1) == 50).all()
  assert (seen[0][:, ::2] == seen[0][:, 1::2]).all()
  again = study_resamples.resample_task("task", of_unit, 30, [function])
  assert (again[0]["first"] == once[0]["first"]).all()
  other = study_resamples.resample_task("other", of_unit, 30, [function])
  assert (other[0]["first"] != once[0]["first"]).any()
  # In parts, where a table of all counts would be too large.
  monkeypatch.setattr(study_resamples, "_MOST_COUNTS", 50 * 8)
  parts = study_resamples.resample_task("task", of_unit, 30, [function])
  assert parts[0]["first"].shape == (30,)
  assert seen[-1].shape == (6, 50)
