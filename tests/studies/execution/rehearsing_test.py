"""Which programs are rehearsed before a plan is told, and which are not."""

import dataclasses
import os

import pytest

from tests.studies.planned import COSTS
from tests.studies.planned import make_job
from tests.studies.planned import speed
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import machines
from transformer_zoo.studies.execution import rehearsal
from transformer_zoo.studies.execution import rehearsing
from transformer_zoo.studies.execution import speeds
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.speeds import Kind


class Rehearsals:
  """Stands in for `rehearsal.rehearse`, and sees what is said."""

  def __init__(self, book, output_dir):
    self.book = book
    self.names = []  # Of what was rehearsed.
    self.said = []
    self.ends = {}  # Name -> what is raised.
    self._kinds = {}
    self._places = {"output_dir": output_dir, "cache": output_dir / "cache"}

  def __call__(self, jobs, most=None):
    self._kinds = {job.run.folder: job.kind for job in jobs}
    rehearsing.rehearse(
      jobs, self.book, most=most, say=self.said.append, **self._places
    )
    return self.names

  def rehearse(self, run, *places):
    self.names.append(run.folder.name)
    if run.folder.name in self.ends:
      raise self.ends[run.folder.name]
    kind = self._kinds[run.folder]
    return [speed(kind, rehearsed=True) for _ in rehearsal.PARTS]


@pytest.fixture
def rehearsed(tmp_path, monkeypatch):
  monkeypatch.setattr(machines, "here", lambda: "this one")
  monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 9.0, 9.0))
  found = Rehearsals(speeds.Speeds(tmp_path / "speeds.json"), tmp_path)
  monkeypatch.setattr(rehearsal, "rehearse", found.rehearse)
  return found


def with_flops(times, steps=1):
  """Costs of so many times the FLOPs a step, and so many times the steps."""
  return dataclasses.replace(
    COSTS, flops=round(COSTS.flops * times * steps), steps=COSTS.steps * steps
  )


def two_phases():
  """A pre-training with a variant, and two groups of each one's fine-tuning."""
  text, glue, squad = (
    Kind("reader", "text"),
    Kind("answerer", "glue"),
    Kind("answerer", "squad"),
  )
  return [
    make_job("pretrain", "base", text, with_flops(1, steps=4)),
    make_job("pretrain", "variant", Kind("v", "text"), with_flops(1.5)),
    make_job("finetune", "base-glue", glue),
    make_job("finetune", "base-squad", squad),
    make_job("finetune", "variant-glue", glue),
    make_job("finetune", "v-glue", Kind("other", "glue"), with_flops(0.5)),
  ]


def test_a_program_of_each_phase_and_each_mixture_is_rehearsed_once(rehearsed):
  # Those first that most FLOPs are left of.
  assert rehearsed(two_phases()) == ["base", "base-glue", "base-squad"]
  assert rehearsed.said == [
    "rehearsing 1 of 3 (baseline / seed 0 / pretrain)",
    "rehearsing 2 of 3 (baseline / seed 0 / finetune)",
    "rehearsing 3 of 3 (baseline / seed 0 / finetune)",
  ]
  assert len(rehearsed.book.matching(program="answerer")) == 6
  assert rehearsed(two_phases()) == ["base", "base-glue", "base-squad"]


def test_no_more_are_rehearsed_than_asked_for(rehearsed):
  assert rehearsed(two_phases(), most=0) == [] == rehearsed.said
  assert rehearsed(two_phases(), most=1) == ["base"]
  # What is scaled otherwise comes after what is needed.
  assert rehearsed(two_phases(), most=4)[1:] == [
    *("base-glue", "base-squad", "variant", "v-glue")
  ]


def test_steps_of_other_sizes_are_not_scaled_from_each_other(rehearsed):
  jobs = [make_job("pretrain", "base")]
  for times in (2, 4, 8, 0.3):
    kind, costs = Kind(f"{times}x", "glue"), with_flops(times)
    jobs.append(make_job("pretrain", f"{times}x", kind, costs))
  # 4 is near 8, and 1 near 2.
  assert rehearsed(jobs) == ["8x", "2x", "0.3x"]


def test_what_other_cores_tell_is_not_rehearsed(rehearsed, monkeypatch):
  def book(cores):
    monkeypatch.setattr(machines, "here", lambda: f"1 x cpu, {cores} cores")
    return speeds.Speeds(rehearsed._places["output_dir"] / "speeds.json")

  for number, kind in enumerate(("text", "glue", "squad")):
    name = "reader" if kind == "text" else "answerer"
    book(2).add(f"run-{number}", speed(Kind(name, kind)))
  rehearsed.book = book(1)
  assert rehearsed(two_phases()) == []


def test_finished_runs_are_not_rehearsed(rehearsed):
  jobs = [
    dataclasses.replace(job, state=standing.FINISHED) for job in two_phases()
  ]
  assert rehearsed(jobs) == [] == rehearsed.said


def test_ctrl_c_keeps_what_has_been_rehearsed(rehearsed):
  rehearsed.ends["base-glue"] = KeyboardInterrupt()
  assert rehearsed(two_phases()) == ["base", "base-glue"]
  assert rehearsed.said[-1] == "stopped: 1 of 3 are rehearsed"
  assert [s.kind.program for s in rehearsed.book.matching()] == ["reader"] * 3


def test_a_machine_that_others_use_is_told(rehearsed, monkeypatch):
  monkeypatch.setattr(os, "getloadavg", lambda: (9.25, 1.0, 1.0))
  monkeypatch.setattr(os, "cpu_count", lambda: 8)
  rehearsed(two_phases(), most=1)
  assert rehearsed.said[0] == (
    "other processes use this machine (load 9.2, 8 cores): what is rehearsed "
    "now takes longer than it will take alone"
  )
  rehearsed(two_phases(), most=0)
  assert len(rehearsed.said) == 2  # Nothing is rehearsed now.


def test_what_fails_does_not_keep_the_others_from_it(rehearsed):
  rehearsed.ends["base-glue"] = OSError("no data here")
  assert rehearsed(two_phases()) == ["base", "base-glue", "base-squad"]
  assert "  not rehearsed: OSError: no data here" in rehearsed.said


@pytest.mark.parametrize(
  ("changes", "why"),
  [
    ({"parameters": 10**14}, "100,000,000,000,000 parameters are too many"),
    ({"flops": 10**14}, "it would take about 11,667 minutes"),
  ],
)
def test_what_is_too_large_is_not_rehearsed(rehearsed, changes, why):
  rehearsed.book.add("a", speed())
  costs = dataclasses.replace(COSTS, **changes)
  jobs = [make_job("a", kind=Kind("huge", "c4"), costs=costs)]
  assert rehearsed(jobs) == []
  assert rehearsed.said[0].startswith("not rehearsed: baseline / seed 0 / a, ")
  assert why in rehearsed.said[0]
  (job,) = durations.with_seconds(jobs, rehearsed.book)
  assert job.source == durations.SCALED
