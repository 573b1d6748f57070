"""How long the rest of a study is said to take, while it trains."""

import dataclasses
import pathlib
import types

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies.execution import estimates
from transformer_zoo.studies.execution import schedule
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution import time_left


def run(name, **fields):
  return types.SimpleNamespace(
    **{"row": "a", "group": "", "phase": "finetune", "name": name} | fields,
    folder=pathlib.Path(name),
    starts=(),
  )


PRETRAIN = run("p", phase="pretrain")
SHORT, LONG = run("s", group="GLUE"), run("l", row="b", group="GLUE")
OTHER, ENSEMBLE = run("o", group="SQuAD"), run("e", phase="ensemble")
WEIGHTS = {
  one.folder: weight
  for one, weight in ((PRETRAIN, 880.0), (SHORT, 80), (LONG, 160), (OTHER, 80))
}


def test_the_first_estimate_of_a_phase_is_by_weight():
  left = time_left.TimeLeft(lambda: WEIGHTS)
  left.add(PRETRAIN, 88.0)
  assert left.of(SHORT) == pytest.approx(8.0)
  assert left.of(LONG) == pytest.approx(16.0)
  assert left.of(ENSEMBLE) == 88.0
  left.add(SHORT, 12.0)
  assert left.of(ENSEMBLE) == 12.0


def test_runs_that_are_alike_tell_more_than_others():
  left = time_left.TimeLeft(lambda: WEIGHTS)
  for one, seconds in ((PRETRAIN, 88.0), (SHORT, 12.0)):
    left.add(one, seconds)
  assert left.of(LONG) == pytest.approx(24.0)  # Of its group, twice as long.
  left.add(OTHER, 4.0)
  assert left.of(LONG) == pytest.approx(24.0)
  assert left.of(run("o", group="WMT")) == pytest.approx(8.0)  # Of its phase.


def test_without_weights_runs_take_as_long_as_those_alike():
  left = time_left.TimeLeft(dict)
  left.add(PRETRAIN, 88.0)
  assert left.of(SHORT) == 88.0
  left.add(SHORT, 12.0)
  left.add(OTHER, 4.0)
  assert left.of(LONG) == 12.0
  assert left.of(ENSEMBLE) == pytest.approx((88 + 12 + 4) / 3)


def test_weights_are_told_when_they_are_needed_and_once():
  asked = []
  left = time_left.TimeLeft(lambda: asked.append(1) or WEIGHTS)
  left.add(PRETRAIN, 88.0)
  assert not asked
  left.of(SHORT)
  left.of(LONG)
  assert asked == [1]


@pytest.mark.parametrize("recorded, weight", [(3.0, 3.0), (None, 5e9)])
def test_weights_are_seconds_by_recorded_speeds_or_flops(
  monkeypatch, tmp_path, recorded, weight
):
  costs = types.SimpleNamespace(flops=5e9)
  found = [estimates.Job(SHORT, standing.FINISHED, None, costs)]

  def with_seconds(jobs, speeds, processes):
    assert (speeds, processes) == (tmp_path / "speeds.json", 2)
    return [
      dataclasses.replace(j, seconds=j.is_left and recorded) for j in jobs
    ]

  monkeypatch.setattr(time_left.estimates, "jobs", lambda *_, **__: found)
  monkeypatch.setattr(time_left.durations, "with_seconds", with_seconds)
  monkeypatch.setattr(time_left, "Speeds", lambda file: file)
  file = tmp_path / "speeds.json"
  assert time_left.weights([SHORT], file, (), 2) == {SHORT.folder: weight}


def test_a_run_that_does_not_fit_together_leaves_the_others(monkeypatch):
  def refuse(*_, **__):
    raise UserError("2 heads")

  monkeypatch.setattr(time_left.estimates, "jobs", refuse)
  assert time_left.weights([SHORT], pathlib.Path("none")) == {}


class TwoAtOnce:
  """Trains in no time; what began first ends first."""

  at_once = 2

  def __init__(self):
    self.running = []

  def has_room(self):
    return len(self.running) < self.at_once

  def start(self, run):
    self.running.append(run)

  def ended(self):
    one = self.running.pop(0)
    (one.folder / "result.json").write_text('{"seconds": 100.0}')
    yield one, None


def test_runs_at_once_share_what_is_left(tmp_path, monkeypatch):
  monkeypatch.setattr(schedule.time, "monotonic", lambda: 0.0)
  runs = [run(str(tmp_path / name)) for name in "abcd"]
  for one in runs:
    one.folder.mkdir()
  names = {one.folder: one.name for one in runs}
  left, said = time_left.TimeLeft(dict), []
  schedule.Schedule(runs, TwoAtOnce(), said.append, names, left).run()
  told = [line.rpartition("(0 s; ")[2] for line in said if "finished" in line]
  assert told == [
    "1 of 4 done; about 2 min 30 s left)",
    "2 of 4 done; about 1 min 40 s left)",
    "3 of 4 done; about 1 min 40 s left)",
    "all done)",
  ]
