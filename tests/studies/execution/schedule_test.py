"""The messages of a schedule: progress and the time left."""

import dataclasses
import json

import pytest

from tests.studies.planned import make_run
from transformer_zoo.studies.execution import schedule
from transformer_zoo.studies.execution.durations import Durations


class AtOnce:
  """Trains in no time; the run that started first ends first."""

  def __init__(self, number, results):
    self.at_once = number
    self._results = iter(results)
    self._running = []

  def has_room(self):
    return len(self._running) < self.at_once

  def start(self, run):
    self._running.append(run)

  def ended(self):
    run = self._running.pop(0)
    result = json.dumps(next(self._results))
    (run.folder / "result.json").write_text(result)
    yield run, None


@pytest.fixture
def messages(tmp_path, monkeypatch):
  """The ends of the messages about finished runs of equal size."""
  monkeypatch.setattr(schedule.time, "monotonic", lambda: 0.0)
  runs = [
    dataclasses.replace(make_run("finetune", name), folder=tmp_path / name)
    for name in "abcd"
  ]
  for run in runs:
    run.folder.mkdir()

  def of_results(at_once, *results):
    said = []
    schedule.Schedule(
      runs,
      AtOnce(at_once, results),
      said.append,
      {run.folder: run.name for run in runs},
      Durations(lambda: {run.folder: 100 for run in runs}),
    ).run()
    return [
      line.rpartition("(0 s; ")[2]
      for line in said
      if "fin" in line[-80:] and "finished (" in line
    ]

  return of_results


def result(seconds, **parts):
  return {
    "seconds": seconds,
    "seconds_by_part": parts,
    "budget": {"flops": 100},
  }


def test_runs_at_once_share_the_time_left(messages):
  assert messages(2, *[result(100.0)] * 4) == [
    "1 of 4 done; about 3 min 20 s left)",
    "2 of 4 done; about 1 min 40 s left)",
    "3 of 4 done; about 1 min 40 s left)",
    "all done)",
  ]


def test_what_the_first_run_compiles_is_not_expected_of_the_others(messages):
  slow = result(63.0, start=1.0, compilation=60.0, training=2.0)
  fast = result(3.0, start=1.0, compilation=0.0, training=2.0)
  assert messages(1, slow, *[fast] * 3) == [
    "1 of 4 done; about 9 s left)",
    "2 of 4 done; about 6 s left)",
    "3 of 4 done; about 3 s left)",
    "all done)",
  ]


def test_no_time_is_printed_before_it_is_known(messages):
  evaluation = {"seconds": 5.0}
  assert messages(1, *[evaluation] * 4)[0] == "1 of 4 done)"
