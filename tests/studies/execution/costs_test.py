"""Costs of runs: each program traced once, remembered in a file."""

import dataclasses

import gin
import pytest

from tests.studies.planned import COSTS
from tests.studies.planned import make_job
from tests.studies.planned import make_run
from transformer_zoo import config
from transformer_zoo import environment
from transformer_zoo.forecast import hardware
from transformer_zoo.runs import settings
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.execution import costs
from transformer_zoo.studies.execution import run_costs


@pytest.fixture
def book(tmp_path, monkeypatch):
  """The costs that a version of the code finds in one file."""

  def of_version(code):
    monkeypatch.setattr(
      environment, "describe_software", lambda: {"code": code}
    )
    return costs.KnownCosts(tmp_path / "runs" / "costs.json")

  return of_version


def never():
  raise AssertionError("it is known")


def test_costs_are_counted_once(book):
  without = dataclasses.replace(COSTS, executed=None)
  first = book("a")
  assert first.get("small", lambda: COSTS) == COSTS
  assert first.get("small", never) == COSTS
  first.get("large", lambda: without)
  first.write()
  again = book("a")
  assert again.get("small", never) == COSTS
  assert again.get("large", never) == without


def test_another_version_counts_anew(book):
  before = book("a")
  before.get("small", lambda: COSTS)
  before.write()
  after = book("b")
  changed = dataclasses.replace(COSTS, flops=7)
  assert after.get("small", lambda: changed) == changed
  after.write()
  assert book("b").get("small", never) == changed


def test_runs_of_one_program_are_traced_once(monkeypatch):
  traced = []

  def of_settings(run, with_executed):
    traced.append(run.examples.task_feature_lengths)
    return dataclasses.replace(COSTS, flops=len(traced))

  monkeypatch.setattr(costs.run_costs, "of_settings", of_settings)

  def run(name, *changes):
    base = ("runs/miniature_finetune.gin",)
    return dataclasses.replace(make_run("a", name), changes=base + changes)

  runs = [
    run("first"),
    run("other_data", "MIXTURE_OR_TASK_NAME='mini_squad'"),
    dataclasses.replace(run("started"), starts=(run("first").folder,)),
    run("longer", "TRAIN_STEPS=700"),
    run("wider", "MLP_DIM=8"),
  ]
  found = costs.jobs(runs)
  assert [job.costs.flops for job in found] == [1, 1, 1, 2, 3]


def test_the_roofline_of_a_slice():
  chip = hardware.named("v5e")
  job = costs._with_bounds(make_job("a"), chip, 16)
  compute = 10**9 / (16 * chip.peak_flops)
  memory = 10**6 / (16 * chip.memory_bandwidth)
  assert job.on_slice.in_turn.seconds == pytest.approx(compute + memory)


@pytest.mark.slow
def test_a_mask_decoder_is_counted_as_it_runs():
  """The last layer is not: nothing reads it where layers are not scanned."""
  changes = (
    *("architectures/deberta.gin", "sizes/bert_tiny.gin"),
    *("runs/pretrain.gin", "objectives/bert.gin", "TRAIN_STEPS=3"),
    *("MIXTURE_OR_TASK_NAME='x'", "BATCH_SIZE=2"),
  )
  (job,) = costs.jobs([dataclasses.replace(make_run("a"), changes=changes)])
  bindings = planned_run.bindings("train", 0, "", ())
  config.load((), bindings, changes=changes)
  run = settings.Run.of_loaded()
  gin.clear_config()
  alone = run_costs.of_settings(run, with_executed=False)
  assert job.costs.flops == alone.flops
