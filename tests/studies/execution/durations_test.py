"""Predicted durations: FLOPs over the rate of finished runs."""

import dataclasses
import json
import os
import pathlib

import pytest

from tests.studies.planned import make_job
from tests.studies.planned import make_run
from transformer_zoo import environment
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.durations import Durations
from transformer_zoo.studies.execution.durations import FinishedRun

PRETRAIN = make_run("pretrain")
SHORT = make_run("finetune", "short", group="GLUE")
LONG = make_run("finetune", "long", group="GLUE", row="b")
OTHER = make_run("finetune", "other", group="SQuAD")
ENSEMBLE = make_run("ensemble", command="evaluate")
FLOPS = {
  PRETRAIN.folder: 880,
  SHORT.folder: 80,
  LONG.folder: 160,
  OTHER.folder: 80,
}


def finished(run, seconds, *, start=0.0, flops=True):
  return FinishedRun(
    run.phase, run.group, FLOPS[run.folder] if flops else None, start, seconds
  )


def predict(run, *known):
  return Durations(lambda: FLOPS, known).seconds(run)


def test_flops_over_the_rate_and_a_start():
  known = finished(PRETRAIN, 88.0, start=3.0)
  assert predict(SHORT, known) == pytest.approx(3 + 8)
  assert predict(LONG, known) == pytest.approx(3 + 16)


def test_runs_that_are_alike_count_first():
  pretrain, short = finished(PRETRAIN, 88.0), finished(SHORT, 12.0)
  assert predict(LONG, pretrain, short) == pytest.approx(24.0)
  other = finished(OTHER, 4.0)
  # Of its group, else all of its phase: 16 seconds for 160 FLOPs.
  assert predict(LONG, pretrain, short, other) == pytest.approx(24.0)
  of_wmt = dataclasses.replace(LONG, group="WMT")
  assert predict(of_wmt, pretrain, short, other) == pytest.approx(16.0)


def test_an_evaluation_takes_no_longer_after_more_steps():
  known = dataclasses.replace(finished(SHORT, 8.0), evaluation=6.0)
  assert predict(LONG, known) == pytest.approx(16 + 6)


def test_evaluations_last_as_long_as_others():
  assert predict(ENSEMBLE, finished(PRETRAIN, 88.0)) is None
  evaluated = FinishedRun("ensemble", "", None, 0.0, 5.0)
  assert predict(ENSEMBLE, finished(PRETRAIN, 88.0), evaluated) == 5.0
  assert predict(SHORT, evaluated) is None


def test_nothing_is_counted_before_a_run_has_finished():
  counted = []
  known = Durations(lambda: counted.append(1) or FLOPS)
  assert known.seconds(SHORT) is None
  assert not counted


def test_compiling_is_no_part_of_the_rate(tmp_path):
  run = dataclasses.replace(SHORT, folder=tmp_path)
  parts = {"start": 2.0, "compilation": 50.0, "training": 5.0}
  parts |= {"evaluation": 3.0, "saving": 3.0}
  result = {"seconds": 63.0, "seconds_by_part": parts, "budget": {"flops": 80}}
  (tmp_path / "result.json").write_text(json.dumps(result))
  calls = []
  known = Durations(lambda: calls.append(1) or FLOPS)
  known.add(run, took=99.0)
  assert known.seconds(SHORT) == pytest.approx(2 + 8 + 3)
  assert known.seconds(LONG) == pytest.approx(2 + 16 + 3)
  assert len(calls) == 1
  (tmp_path / "result.json").write_text("{}")  # Of an evaluation.
  known.add(run, took=7.0)
  assert known.seconds(ENSEMBLE) == 7.0


@pytest.fixture
def running(tmp_path):
  """A run that has logged 30 of 100 steps of 2 seconds."""
  (tmp_path / "config.gin").write_text("TRAIN_STEPS = 100\n")
  rows = [
    {"step": step, "timing/seconds_per_step": 2.0} for step in (10, 20, 30)
  ]
  text = "".join(json.dumps(row) + "\n" for row in rows)
  (tmp_path / "timing.jsonl").write_text(text)
  return dataclasses.replace(SHORT, folder=tmp_path)


def left_of(known, run, gone, *waiting):
  found = known.left([(run, gone)], waiting)
  return found and [seconds for _, seconds in found]


def test_a_running_run_goes_on_at_its_own_speed(running):
  """What it compiles before the first step delays no later prediction."""
  known = dataclasses.replace(finished(SHORT, 8.0), evaluation=6.0)
  found = Durations(lambda: {running.folder: 80}, [known])
  assert left_of(found, running, 500.0) == [pytest.approx(146, abs=2)]
  metrics = {"step": 25, "validation/average": 1.0}
  (running.folder / "metrics.jsonl").write_text(json.dumps(metrics) + "\n")
  assert left_of(found, running, 500.0) == [pytest.approx(144.5, abs=2)]


def test_steps_before_an_interruption_are_none_of_this_run(running):
  known = Durations(lambda: {running.folder: 80}, [finished(SHORT, 8.0)])
  os.utime(running.folder / "timing.jsonl", (0, 0))
  assert left_of(known, running, 5.0) == [pytest.approx(3)]
  assert left_of(known, running, 50.0) == [0]


def test_a_running_run_tells_how_long_the_first_others_take(running):
  known = Durations(lambda: FLOPS | {running.folder: 40})
  left = left_of(known, running, 500.0, LONG)
  assert left == [pytest.approx(140, abs=2), pytest.approx(4 * 200)]
  assert left_of(known, LONG, 500.0) is None


@pytest.fixture
def pool(tmp_path, monkeypatch):
  """Writes runs that finished with a number of cores."""
  here = environment.describe_environment() | {"cpu_count": 4}
  monkeypatch.setattr(environment, "describe_environment", lambda: here)

  def write(name, seconds, **changes):
    folder = tmp_path / name
    folder.mkdir()
    machine = here | changes
    (folder / "environment.json").write_text(json.dumps(machine))
    result = {"seconds": seconds, "budget": {"flops": 80}}
    (folder / "result.json").write_text(json.dumps(result))
    return tmp_path

  return write


def seconds_of(pool, **options):
  found = durations.finished_here(pool, [], **options)
  return sorted(one.seconds for one in found)


def test_runs_of_this_machine_count_with_as_many_cores(pool):
  pool("finetune-1", 1.0)
  pool("finetune-2", 2.0, cpu_count=2)
  pool("finetune-3", 3.0, memory_gib=1e6)
  folder = pool("finetune-4", 4.0, devices={"kind": "TPU v4", "count": 4})
  assert seconds_of(folder) == [1.0]
  assert seconds_of(folder, processes=2) == [2.0]
  # No run here had one core.
  assert seconds_of(folder, processes=4) == [1.0, 2.0]


def test_the_phase_and_the_group_of_a_run_in_the_pool(pool):
  folder = pool("finetune-1", 1.0)
  run = dataclasses.replace(SHORT, folder=pathlib.Path("runs/finetune-1"))
  (known,) = durations.finished_here(folder, [run])
  assert (known.phase, known.group, known.flops) == ("finetune", "GLUE", 80)
  (unknown,) = durations.finished_here(folder, [])
  assert unknown.group is None


def test_damaged_runs_are_left_out(pool):
  folder = pool("finetune-1", 1.0)
  (folder / "finetune-1" / "environment.json").write_text("{")
  assert seconds_of(folder) == []
  assert seconds_of(folder / "nothing") == []


def test_finished_jobs_take_no_more_time():
  jobs = [make_job("a"), make_job("b", state=run_progress.FINISHED)]
  known = Durations(
    lambda: {job.run.folder: 100 for job in jobs},
    [FinishedRun("a", "", 50, 0.0, 10.0)],
  )
  found = durations.with_seconds(jobs, known)
  assert [job.seconds for job in found] == [20.0, 0.0]


# The quickstart in two processes, which other work slowed by and by: when each
# run started and ended after the command, and how long its parts took.
RECORDED = {
  # Name: (start, end, starting, training, evaluating).
  "pretrain-0": (74, 381, 30, 228, 8),
  "scratch-0": (74, 364, 20, 181, 44),
  "pretrain-1": (364, 719, 3, 343, 5),
  "finetune-0": (381, 700, 5, 238, 72),
  "scratch-1": (700, 1012, 6, 250, 47),
  "finetune-1": (719, 1035, 8, 257, 41),
}


@pytest.mark.parametrize("now", [364, 381, 700, 719])
def test_the_time_left_of_a_recorded_study_is_right_within_a_quarter(now):
  runs = {
    name: make_run(name.partition("-")[0].replace("scratch", "finetune"), name)
    for name in RECORDED
  }
  for seed in "01":
    after = (runs[f"pretrain-{seed}"].folder,)
    name = f"finetune-{seed}"
    runs[name] = dataclasses.replace(runs[name], starts=after)
  flops = {"pretrain": 3.78e12, "finetune": 2.74e12}
  known = [
    FinishedRun(run.phase, "", flops[run.phase], *RECORDED[name][2:])
    for name, run in runs.items()
    if RECORDED[name][1] <= now
  ]
  predicted = Durations(
    lambda: {run.folder: flops[run.phase] for run in runs.values()}, known
  )
  left = predicted.left(
    [
      (runs[name], now - began)
      for name, (began, end, *_) in RECORDED.items()
      if began <= now < end
    ],
    [runs[name] for name, (began, *_) in RECORDED.items() if began > now],
  )
  expected = max(end for _, end, *_ in RECORDED.values()) - now
  assert durations.together(left, 2) == pytest.approx(expected, rel=0.25)


def lasting(name, seconds, *starts, **of_job):
  starts = tuple(one.run.folder for one in starts)
  job = make_job(name, starts=starts, **of_job)
  return dataclasses.replace(job, seconds=seconds)


def test_an_unknown_duration_is_not_made_up():
  assert durations.elapsed([lasting("a", None)]) is None
  evaluation = lasting("e", None, costs_=None)
  assert durations.elapsed([lasting("a", 3.0), evaluation]) == 3.0


def test_processes_share_the_runs_and_wait_for_what_they_start_from():
  first, second = lasting("a", 10.0), lasting("b", 4.0)
  after_first = [lasting(f"a{i}", 3.0, first) for i in range(2)]
  after_second = lasting("b0", 5.0, second)
  jobs = [first, *after_first, second, after_second]
  assert durations.elapsed(jobs) == 10 + 2 * 3 + 4 + 5
  # The second process trains b and b0 until 9, and waits until 10.
  assert durations.elapsed(jobs, 2) == 13
  assert durations.elapsed(jobs, 9) == 13
  done = dataclasses.replace(first, state=run_progress.FINISHED, seconds=0.0)
  assert durations.elapsed([done, *jobs[1:]], 2) == 3 + 4 + 5
