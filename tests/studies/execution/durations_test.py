"""How long studies will take, from speeds that are given."""

import dataclasses

import pytest

from tests.studies.planned import COSTS
from tests.studies.planned import make_job
from tests.studies.planned import SECONDS
from tests.studies.planned import speed
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import machines
from transformer_zoo.studies.execution import speeds
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.estimates import UNKNOWN
from transformer_zoo.studies.execution.speeds import Kind


@pytest.fixture
def estimated(tmp_path, monkeypatch):
  """Jobs with their seconds, from speeds."""
  monkeypatch.setattr(machines, "here", lambda: "this one")

  def estimate(jobs, known, processes=1):
    book = speeds.Speeds(tmp_path / "speeds.json")
    for number, one in enumerate(known):
      book.add(f"run-{number}", one)
    return durations.with_seconds(jobs, book, processes)

  return estimate


def test_parts_add_up_and_a_program_begins_once(estimated):
  first, again, done = estimated(
    [make_job("a"), make_job("b"), make_job("c", state=standing.FINISHED)],
    [speed(beginning=9.0), speed(), speed(step=0.5)],
  )
  assert first.seconds == 9 + SECONDS
  assert again.seconds == 7 + SECONDS
  assert done.seconds == 0
  assert first.source == durations.MEASURED


def test_each_process_begins_a_program(estimated):
  jobs = [make_job(name) for name in "abc"]
  known = [speed(beginning=9.0), speed()]
  found = estimated(jobs, known, processes=2)
  assert [job.seconds - SECONDS for job in found] == [9, 9, 7]


def test_warm_ups_change_how_long_a_step_takes(estimated):
  """What was measured of small batches tells of large ones by their FLOPs."""
  (job,) = estimated([make_job("a")], [speed(flops=1e7)])
  assert job.seconds == 7 + SECONDS + 50 * 0.5


def test_an_evaluation_is_as_long_as_others_on_its_mixture(estimated):
  large = speed(Kind("large", "glue"), step=2.0, evaluation=12.0)
  squad = speed(Kind("small", "squad"), evaluation=5.0)
  wanted = make_job("a", kind=Kind("large", "squad"))
  (job,) = estimated([wanted], [large, squad])
  # Decoding takes as much longer than the small one's as the steps do.
  assert job.seconds == 7 + 50 * 2.0 + 2 * (5 * 2.0 / 0.5) + 2 * 0.25


def test_another_program_is_scaled_from_the_nearest_of_its_phase(estimated):
  compiled = speed(beginning=20.0, rehearsed=True, compiled=True)
  tiny = speed(Kind("tiny", "glue"), step=0.4, flops=1e6)
  elsewhere = speed(Kind("pretraining", "text"), step=0.1, flops=4e7)
  known = [compiled, speed(), speed(beginning=5.0), tiny, elsewhere]
  twice = dataclasses.replace(COSTS, flops=2 * COSTS.flops)
  large = Kind("large", "glue")
  base, _, first, again, other_phase = estimated(
    [
      make_job("a"),
      make_job("a", "tiny", kind=tiny.kind),
      make_job("a", "large", kind=large, costs=twice),
      make_job("a", "again", kind=large, costs=twice),
      make_job("b", kind=elsewhere.kind),
    ],
    known,
  )
  assert base.seconds == 7 + SECONDS
  # Nothing has compiled it before; steps have twice the FLOPs of the nearest,
  # and the evaluations of all on this mixture are longer by their steps.
  steps = 50 * 2 * 0.5
  assert first.seconds == pytest.approx(20 + steps + 2 * 6 + 2 * 0.25)
  assert again.seconds == pytest.approx(first.seconds - 20 + 5)
  assert first.source == durations.SCALED
  assert other_phase.source == durations.MEASURED


def test_other_cores_are_told(estimated, monkeypatch, tmp_path):
  monkeypatch.setattr(machines, "here", lambda: "1 x cpu, 4 cores")
  speeds.Speeds(tmp_path / "speeds.json").add("a", speed())
  monkeypatch.setattr(machines, "here", lambda: "1 x cpu, 1 cores")
  (job,) = estimated([make_job("a")], [])
  assert job.source == "measured with 4 cores"
  assert job.seconds == 7 + 2 * (50 * 0.5 + 2 * 3) + 2 * 0.25


def test_an_ensemble_evaluates_each_member(estimated):
  members = [make_job(name) for name in ("a", "b")]
  starts = tuple(job.run.folder for job in members)
  both = make_job("both", costs=None, starts=starts, command="evaluate")
  jobs = estimated([*members, both], [speed()])
  assert jobs[-1].seconds == 7 + 2 * 3


def test_what_nothing_tells_is_unknown(estimated):
  (job,) = estimated([make_job("a")], [])
  assert job.seconds is None and job.source == UNKNOWN
  assert durations.elapsed([job]) is None


def lasting(name, seconds, *starts):
  job = make_job(name, starts=tuple(one.run.folder for one in starts))
  return dataclasses.replace(job, seconds=seconds)


def test_processes_share_the_runs_and_wait_for_what_they_start_from():
  first, second = lasting("a", 10.0), lasting("b", 4.0)
  after_first = [lasting(f"a{i}", 3.0, first) for i in range(2)]
  after_second = lasting("b0", 5.0, second)
  jobs = [first, *after_first, second, after_second]
  assert durations.elapsed(jobs) == 10 + 2 * 3 + 4 + 5
  # The second process trains b and b0 until 9, and waits until 10.
  assert durations.elapsed(jobs, 2) == 13
  assert durations.elapsed(jobs, 9) == 13
  finished = dataclasses.replace(first, state=standing.FINISHED, seconds=0.0)
  assert durations.elapsed([finished, *jobs[1:]], 2) == 3 + 4 + 5
