"""A rehearsal: three short trainings, and what they say together."""

import dataclasses

import numpy as np
import pytest

from tests.ablations.planned import make_run
from transformer_zoo import config
from transformer_zoo.ablations import rehearsal
from transformer_zoo.ablations import speeds
from transformer_zoo.ablations.speeds import Speed
from transformer_zoo.experiment import train


@pytest.fixture
def trainings(monkeypatch):
  """What the trainings are called with; they take seconds that are given."""
  called = []
  # Compiled, found on disk, kept in memory.
  beginnings, evaluations = iter((9.0, 3.0, 0.5)), iter((6.0, 4.0, 2.0))

  def measured(folder, kind, *, rehearsed):
    assert rehearsed
    return Speed(
      kind,
      beginning=next(beginnings),
      step=0.1 * len(called),
      evaluation=next(evaluations),
      save=0.01 * len(called),
      flops=1e9,
      rehearsed=True,
    )

  monkeypatch.setattr(config, "call", lambda _, **kws: called.append(kws))
  monkeypatch.setattr(speeds, "measured", measured)
  return called


@pytest.fixture
def found(trainings, tmp_path):
  run = dataclasses.replace(
    make_run("finetune"), changes=("runs/miniature_finetune.gin",)
  )
  return rehearsal.rehearse(run, tmp_path / "lap", tmp_path / "cache")


def test_a_first_evaluation_takes_longer_by_what_it_compiles(found):
  compiled, loaded, kept = found
  assert compiled.compiled and not loaded.compiled
  assert compiled.beginning == 9 + (6 - 2)
  assert loaded.beginning == 3 + (4 - 2)
  assert kept.beginning == 0.5
  # The last one says all the rest.
  for one in found:
    assert (one.evaluation, one.step) == (2.0, pytest.approx(0.3))
    assert one.kind == kept.kind and one.kind.mixture == "miniature"


def test_only_the_last_one_has_several_steps(found, trainings):
  assert [one["train_steps"] for one in trainings] == [1, 1, rehearsal.STEPS]
  for one in trainings:
    assert one["initial_checkpoint"] == train.FROM_SCRATCH
    assert one["periods"].checkpoint == one["train_steps"]


def test_outputs_end_where_those_of_a_trained_model_would(found, trainings):
  targets = np.array([3, 1, 16], np.int32)
  for one in trainings:
    decoding = one["decoding"].with_length(16)
    np.testing.assert_array_equal(decoding.limits(targets), targets)
