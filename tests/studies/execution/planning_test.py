"""Plans of studies as text and as JSON."""

import dataclasses
import json
import os

import pytest

from tests.studies.planned import COSTS
from tests.studies.planned import make_job
from tests.studies.planned import make_run
from tests.studies.planned import speed
from transformer_zoo.cli import main as cli
from transformer_zoo.studies.design.request import Launch
from transformer_zoo.studies.execution import estimates
from transformer_zoo.studies.execution import known_costs
from transformer_zoo.studies.execution import launchers
from transformer_zoo.studies.execution import plan_report
from transformer_zoo.studies.execution import planning
from transformer_zoo.studies.execution import rehearsal
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.plan_report import Told
from transformer_zoo.studies.execution.speeds import Kind


def lasting(phase, seconds, **of_run):
  return dataclasses.replace(
    make_job(phase, **of_run), seconds=seconds, source="measured"
  )


def test_the_plan_counts_shared_runs_once():
  pretrain = make_run("pretrain")
  runs = [
    pretrain,
    make_run("finetune", starts=(pretrain.folder,)),
    dataclasses.replace(pretrain, row="longer", shared=True),
    make_run("longer", row="longer", starts=(pretrain.folder,)),
  ]
  jobs = [
    lasting("pretrain", 60.0),
    lasting("finetune", 20.0, starts=(pretrain.folder,)),
    lasting("longer", 40.0, starts=(pretrain.folder,)),
  ]
  told = Told([("tiny", runs)], jobs)
  text = plan_report.as_text(told)
  lines = [line.split() for line in text.splitlines()]
  assert ["baseline", "pretrain", "1", "0", "1,000", "100", "50"] == lines[2][
    :7
  ]
  assert ["longer", "pretrain", "0", "1", "1,000"] == lines[4][:5]
  assert "3 distinct runs, 0 of them finished; left: about 2 min 00 s" in text
  assert "(3 measured)" in text
  in_json = plan_report.as_json(told)
  assert in_json["total"]["flops"] == 3 * 10**9
  assert in_json["total"]["input_tokens"] == 15_000
  assert in_json["total"]["seconds"] == 120
  assert [run["shared"] for run in in_json["studies"][0]["runs"]] == [
    *(False, False, True, False)
  ]
  # Two processes train what starts from the first run at once.
  twice = dataclasses.replace(told, processes=2, processors=(4, "core"))
  assert "left: about 1 min 40 s on this machine, 2 at once (3" in (
    plan_report.as_text(twice)
  )
  assert plan_report.totals(twice)["elapsed_seconds"] == 100
  assert plan_report.totals(twice)["seconds"] == 120


def test_the_plan_says_what_takes_most():
  rows = {"a": 600.0, "b": 60.0, "c": 40.0, "d": 20.0}
  jobs = [
    lasting("pretrain", seconds, name=row, row=row)
    for row, seconds in rows.items()
  ]
  done = dataclasses.replace(jobs[3], state=standing.FINISHED, seconds=0.0)
  jobs[3] = done
  studies = [
    ("tiny", [job.run for job in jobs]),
    ("again", [dataclasses.replace(jobs[0].run, row="same")]),
  ]
  text = plan_report.as_text(Told(studies, jobs, processors=(2, "core")))
  assert (
    "23 core minutes in all (2 cores for each run); most take tiny / a 86%, "
    "tiny / b 9%, tiny / c 6%" in text
  )
  nothing = plan_report.as_text(Told([("tiny", [done.run])], [done]))
  assert "1 of them finished; left: about 0 s" in nothing
  assert "minutes in all" not in nothing


def test_a_time_that_is_not_known_is_not_made_up():
  job = make_job("a")
  text = plan_report.as_text(Told([("tiny", [job.run])], [job]))
  assert "left: a time that is not known (1 unknown)" in text
  assert "time unknown of: baseline / seed 0 / a" in text
  assert "most take" not in text


def test_the_command_prints_the_plan_alone(tmp_path, monkeypatch, capsys):
  traced = []

  def of_settings(settings, with_executed):
    assert with_executed
    traced.append(settings["task_feature_lengths"])
    return COSTS

  def rehearse(run, *places):
    return [speed(Kind("x", run.mixture)) for _ in rehearsal.PARTS]

  monkeypatch.setattr(estimates.run_costs, "of_settings", of_settings)
  monkeypatch.setattr(rehearsal, "rehearse", rehearse)
  words = ["ablate", "quickstart", "--seeds=2", "--plan", "--topology=v5e:2x2"]
  words.append(f"--output_dir={tmp_path / 'runs'}")
  assert cli.main([*words, "--json"]) == 0
  printed = capsys.readouterr()
  told = json.loads(printed.out)
  assert "rehearsing 6 of 6 (baseline / seed 0 / pretrain)" in printed.err
  runs = told["studies"][0]["runs"]
  assert {run["row"] for run in runs} == {"baseline", "no_pretraining"}
  assert told["total"]["left"] == len(told["runs"]) == len(runs)
  assert told["total"]["flops"] == len(runs) * COSTS.flops
  assert len(traced) == 2  # Programs: of pre-training and of fine-tuning.
  bounds = told["total"]["slice_seconds"]
  assert bounds["in_turn"] > bounds["at_best"] > 0
  assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
    *(known_costs.FILE, planning.SPEEDS_FILE)
  ]
  assert cli.main(words) == 0
  assert len(traced) == 2  # The costs of both are remembered.
  text = capsys.readouterr().out
  assert text.startswith("quickstart\nrow ") and "steps on v5e:2x2: " in text


@pytest.mark.parametrize(
  ("words", "told"),
  [
    (["--plan", "--rehearse=-1"], "--rehearse is -1; it has to be 0, for what"),
    (["--rehearse=0"], "--rehearse is an option of --plan alone"),
  ],
)
def test_rehearsals_are_of_plans_and_not_fewer_than_none(words, told, capsys):
  assert cli.main(["ablate", "quickstart", *words]) == 2
  assert told in capsys.readouterr().err


def test_rehearsals_have_the_devices_of_one_process(monkeypatch):
  taken, gpus = [], []
  monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
  monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
  monkeypatch.setattr(
    os, "sched_setaffinity", lambda _, cores: taken.append(sorted(cores))
  )

  def planned(*_):
    gpus.append(os.environ["CUDA_VISIBLE_DEVICES"])
    return Told([], [])

  monkeypatch.setattr(planning, "_planned", planned)
  planning.show(None, Launch())
  assert (taken, gpus) == ([], ["4,5,6,7"])
  planning.show(None, Launch(jobs=2))
  share = launchers.share_of_devices(range(4), 0, 2)
  assert taken == [list(share), [0, 1, 2, 3]]
  assert gpus[1] == ",".join(str(4 + number) for number in share)
  assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
