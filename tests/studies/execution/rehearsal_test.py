"""A rehearsal: three short trainings, and what they say together."""

import dataclasses

import numpy as np
import pytest

from tests.studies.planned import make_run
from transformer_zoo import config
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage import manifest
from transformer_zoo.runs.initial_checkpoint import InitialCheckpoint
from transformer_zoo.studies.execution import rehearsal
from transformer_zoo.studies.execution import speeds
from transformer_zoo.studies.execution.speeds import Speed


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


@pytest.fixture(scope="module")
def prepared_dir(tmp_path_factory):
  return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def rehearse(trainings, tmp_path, prepared_dir, monkeypatch):
  """Rehearses with changes; a batch of evaluation has ten examples."""
  monkeypatch.setattr(rehearsal, "EXAMPLES", 40)

  def start(*changes):
    of_run = (
      "runs/miniature_finetune.gin",
      "MIXTURE_OR_TASK_NAME='mini_sst2'",
      f"PREPARED_DIR={str(prepared_dir)!r}",
      "train.evaluation_batch_size=10",
    )
    run = dataclasses.replace(make_run("finetune"), changes=of_run + changes)
    return rehearsal.rehearse(run, tmp_path / "lap", tmp_path / "cache")

  return start


@pytest.fixture
def found(rehearse):
  return rehearse()


def test_a_first_evaluation_takes_longer_by_what_it_compiles(found):
  compiled, loaded, kept = found
  assert compiled.compiled and not loaded.compiled
  assert compiled.beginning == 9 + (6 - 2)
  assert loaded.beginning == 3 + (4 - 2)
  assert kept.beginning == 0.5
  # The last one says all the rest.
  for one in found:
    assert one.evaluation == kept.evaluation and one.step == pytest.approx(0.3)
    assert one.kind == kept.kind and one.kind.mixture == "mini_sst2"


def test_some_examples_are_evaluated_and_all_are_told(
  rehearse, trainings, prepared_dir
):
  kept = rehearse()[-1]
  assert {one["evaluation_max_examples"] for one in trainings} == {40}
  mixture = manifest.load("mini_sst2", str(prepared_dir))
  lengths = {"inputs": 72, "targets": 16}
  some, every = (
    EvaluationSplit(
      mixture.tasks[0], "validation", lengths, 10, max_examples=examples
    ).num_batches
    for examples in (40, None)
  )
  assert some < every
  assert kept.evaluation == pytest.approx(2.0 * every / some)


def test_a_run_that_evaluates_fewer_examples_is_rehearsed_with_those(
  rehearse, trainings
):
  kept = rehearse("train.evaluation_max_examples=20")[-1]
  assert {one["evaluation_max_examples"] for one in trainings} == {20}
  assert kept.evaluation == 2.0


def test_only_the_last_one_has_several_steps(found, trainings):
  assert [one["train_steps"] for one in trainings] == [1, 1, rehearsal.STEPS]
  for one in trainings:
    assert one["initial_checkpoint"] == InitialCheckpoint()
    assert one["periods"].checkpoint == one["train_steps"]


def test_outputs_end_where_those_of_a_trained_model_would(found, trainings):
  targets = np.array([3, 1, 16], np.int32)
  for one in trainings:
    decoding = one["decoding"].with_length(16)
    np.testing.assert_array_equal(decoding.limits(targets), targets)
