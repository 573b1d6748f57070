"""How long steps take here, told by runs, rehearsals and other cores."""

import dataclasses
import json

import pytest

from tests.studies.planned import SMALL
from tests.studies.planned import speed
from transformer_zoo.studies.execution import machines
from transformer_zoo.studies.execution import speeds
from transformer_zoo.studies.execution.speeds import Kind
from transformer_zoo.studies.execution.speeds import Speed
from transformer_zoo.training.monitoring import recorder

ONE_CORE = "1 x cpu, 1 cores, 8.0 GiB, Linux"
FOUR_CORES = "1 x cpu, 4 cores, 8.0 GiB, Linux"
LARGE = Kind("large", "glue")


@pytest.fixture
def on(tmp_path, monkeypatch):
  """The speeds that a machine sees, all in one file."""

  def speeds_on(machine):
    monkeypatch.setattr(machines, "here", lambda: machine)
    return speeds.Speeds(tmp_path / "speeds.json")

  return speeds_on


def write_run(folder, *, steps=10, evaluations=(5.0, 2.0, 2.0), **changes):
  folder.mkdir(parents=True)
  with recorder.Recorder(folder) as lines:
    for step, seconds in enumerate(evaluations):
      lines.timing(step, {"timing/checkpoint_stall_seconds": 0.1})
      timing = {"timing/seconds_per_step": 0.5 + step}
      lines.timing(step, timing | {"timing/evaluation_seconds": seconds})
  result = {
    "seconds_by_part": {
      "start": 1.0,
      "compilation": 4.0,
      "training": 8.0,
      "evaluation": sum(evaluations),
      "saving": 0.6,
    },
    "budget": {"steps": steps, "flops": 1e3},
  }
  (folder / "result.json").write_text(json.dumps(result | changes))


def test_a_finished_run_tells_its_speed(tmp_path):
  write_run(tmp_path / "a")
  found = speeds.measured(tmp_path / "a", SMALL)
  assert found == Speed(
    SMALL,
    beginning=1 + 4 + (5 - 2),
    step=0.8,
    evaluation=2.0,
    save=pytest.approx(0.2),
    flops=100,
  )
  rehearsed = speeds.measured(tmp_path / "a", SMALL, rehearsed=True)
  assert rehearsed.step == 1.5  # The median line.
  write_run(tmp_path / "b", evaluations=())
  assert speeds.measured(tmp_path / "b", SMALL).evaluation == 0
  (tmp_path / "b" / "result.json").write_text("{}")
  assert speeds.measured(tmp_path / "b", SMALL) is None


def test_a_first_evaluation_that_is_faster_takes_nothing_off(tmp_path):
  write_run(tmp_path / "a", evaluations=(1.0, 2.0, 2.0))
  assert speeds.measured(tmp_path / "a", SMALL).beginning == 1 + 4


def test_another_machine_tells_nothing(on):
  on("1 x cpu, 4 cores, 64.0 GiB, Linux").add("a", speed())
  assert on("1 x cpu, 4 cores, 64.0 GiB, Linux").matching() == [speed()]
  assert on(FOUR_CORES).matching() == []


def test_a_rehearsal_counts_until_a_run_of_its_kind_has_ended(on):
  book = on(ONE_CORE)
  squad = speed(Kind("small", "squad"), rehearsed=True)
  book.add("glue-rehearsal", speed(step=9.0, rehearsed=True))
  book.add("squad-rehearsal", squad)
  book.add("squad-compiled", dataclasses.replace(squad, compiled=True))
  book.add("glue-run", speed())
  assert book.matching(program="small") == [squad, speed()]
  assert book.matching(compiled=True, mixture="squad") == [
    squad,
    dataclasses.replace(squad, compiled=True),
  ]


def test_other_cores_tell_what_these_do_not(on):
  on(ONE_CORE).add("a", speed(step=1.0, evaluation=4.0))
  (there,) = on(FOUR_CORES).matching()
  # Nothing tells how much faster four cores are: the square root.
  assert (there.step, there.evaluation, there.cores) == (0.5, 2.0, 1)
  assert there.beginning == speed().beginning
  on(FOUR_CORES).add("b", speed(step=0.25))
  assert on(FOUR_CORES).matching() == [speed(step=0.25)]


def test_a_program_that_both_know_says_how_much_faster_cores_are(on):
  on(ONE_CORE).add("a", speed(step=1.0))
  on(ONE_CORE).add("b", speed(LARGE, step=10.0))
  on(FOUR_CORES).add("c", speed(step=0.3))
  (large,) = on(FOUR_CORES).matching(program="large")
  assert large.step == pytest.approx(3.0)


def test_an_accelerator_does_not_care_about_cores(on):
  gpu = "1 x NVIDIA H200, {} cores, 8.0 GiB, Linux"
  on(gpu.format(16)).add("a", speed(step=1.0))
  (found,) = on(gpu.format(4)).matching()
  assert found.step == 1.0 and found.cores == 16


def test_runs_of_a_pool_are_read_whatever_cores_they_had(
  on, tmp_path, monkeypatch
):
  ran_on = {
    "here": FOUR_CORES,
    "alone": ONE_CORE,
    "elsewhere": ONE_CORE.replace("8.0", "64.0"),
    "unknown": None,
  }
  for name in ran_on:
    write_run(tmp_path / name)
  monkeypatch.setattr(machines, "of_run", lambda folder: ran_on[folder.name])
  read = []
  monkeypatch.setattr(
    speeds, "_read", lambda folder: read.append(folder.name) or speed()
  )
  on(FOUR_CORES).read_pool(tmp_path)
  assert sorted(read) == ["alone", "here"]
  on(ONE_CORE).read_pool(tmp_path)
  assert sorted(read) == ["alone", "here"]  # The file remembers them.
  (own,) = on(ONE_CORE).matching()
  assert own.cores is None


def test_processors_are_cores_or_accelerators():
  assert machines.processors(FOUR_CORES) == (4, "core")
  gpus = "8 x NVIDIA H200, 64 cores, 900.0 GiB, Linux"
  assert machines.processors(gpus) == (8, "accelerator")
