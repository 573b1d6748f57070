"""Plans of studies as text and as JSON."""

import dataclasses
import json

from tests.studies.planned import COSTS
from tests.studies.planned import make_job
from tests.studies.planned import make_run
from transformer_zoo import environment
from transformer_zoo.cli import main as cli
from transformer_zoo.studies.execution import costs
from transformer_zoo.studies.execution import plan_report
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.plan_report import PlanReport


def lasting(phase, seconds, **of_run):
  return dataclasses.replace(make_job(phase, **of_run), seconds=seconds)


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
  report = PlanReport([("tiny", runs)], jobs, num_finished=5)
  text = plan_report.as_text(report)
  lines = [line.split() for line in text.splitlines()]
  assert ["baseline", "pretrain", "1", "0", "1,000", "100", "50"] == lines[2][
    :7
  ]
  assert ["longer", "pretrain", "0", "1", "1,000"] == lines[4][:5]
  assert (
    "3 distinct runs, 0 of them finished; left: 3 GFLOPs, about 2 min 00 s on "
    "this machine (at the rate of 5 finished runs)\n" in text
  )
  in_json = plan_report.as_json(report)
  assert in_json["total"]["flops"] == 3 * 10**9
  assert in_json["total"]["input_tokens"] == 15_000
  assert in_json["total"]["seconds"] == 120
  assert [run["shared"] for run in in_json["studies"][0]["runs"]] == [
    *(False, False, True, False)
  ]
  # Two processes train what starts from the first run at once.
  twice = dataclasses.replace(report, processes=2)
  assert ", about 1 min 40 s on this machine, 2 at once (at" in (
    plan_report.as_text(twice)
  )
  assert plan_report.totals(twice)["elapsed_seconds"] == 100
  assert plan_report.totals(twice)["seconds"] == 120


def test_the_search_is_a_line_of_its_own():
  searched = make_run("finetune", "low"), make_run("finetune", "high")
  low, high = (dataclasses.replace(r, alternative="a") for r in searched)
  first = dataclasses.replace(searched[0], shared=True)
  second = make_run("finetune", "second")
  pretrain = make_job("pretrain", row="other")
  runs = [low, high, first, second, pretrain.run]
  jobs = [costs.Job(r, "", COSTS) for r in (low, high, second)]
  text = plan_report.as_text(PlanReport([("tiny", runs)], [*jobs, pretrain]))
  lines = [line.split() for line in text.splitlines()]
  assert ["baseline", "finetune", "(search)", "2", "0"] == lines[2][:5]
  assert ["baseline", "finetune", "1", "1"] == lines[3][:4]
  # Two fine-tunings against one run are compared, and not four.
  assert "2.0 times" in text


def test_the_plan_says_what_takes_most():
  rows = {"a": 600.0, "b": 60.0, "c": 40.0, "d": 20.0}
  jobs = [
    lasting("pretrain", seconds, name=row, row=row)
    for row, seconds in rows.items()
  ]
  done = dataclasses.replace(jobs[3], state=run_progress.FINISHED, seconds=0.0)
  jobs[3] = done
  studies = [
    ("tiny", [job.run for job in jobs]),
    ("again", [dataclasses.replace(jobs[0].run, row="same")]),
  ]
  text = plan_report.as_text(PlanReport(studies, jobs))
  assert (
    "11 min 40 s of runs in all; most take tiny / a 86%, tiny / b 9%, "
    "tiny / c 6%" in text
  )
  nothing = plan_report.as_text(PlanReport([("tiny", [done.run])], [done]))
  assert "1 of them finished; left: 0 FLOPs, about 0 s" in nothing
  assert "of runs in all" not in nothing


def test_a_plan_says_which_rows_read_more():
  small, large = (lasting("pretrain", 1.0, name=row, row=row) for row in "ab")

  def text(factor):
    more = dataclasses.replace(COSTS, input_tokens=factor * COSTS.input_tokens)
    jobs = [small, dataclasses.replace(large, costs=more)]
    return plan_report.as_text(
      PlanReport([("tiny", [job.run for job in jobs])], jobs)
    )

  assert "The rows do not read as much: b reads " in text(8)
  assert "do not read as much" not in text(1)


def test_an_unknown_duration_is_not_made_up():
  job = make_job("a")
  text = plan_report.as_text(PlanReport([("tiny", [job.run])], [job]))
  assert (
    "left: 1 GFLOPs, duration unknown, because no training run has finished on "
    "this machine in this folder yet\n" in text
  )
  assert "most take" not in text


def test_evaluations_of_unknown_duration_are_named():
  train, evaluation = lasting("a", 60.0), make_job("e", costs_=None)
  studies = [("tiny", [train.run, evaluation.run])]
  text = plan_report.as_text(PlanReport(studies, [train, evaluation]))
  assert "about 1 min 00 s on this machine" in text
  assert (
    "not counted: 1 evaluations of unknown duration, the first is baseline / "
    "seed 0 / e\n" in text
  )


def test_the_command_prints_the_plan_alone(tmp_path, monkeypatch, capsys):
  traced = []

  def of_settings(run, with_executed):
    assert with_executed
    traced.append(run.examples.task_feature_lengths)
    return COSTS

  monkeypatch.setattr(costs.run_costs, "of_settings", of_settings)
  root = tmp_path / "runs"
  words = ["ablate", "quickstart", "--seeds=2", "--plan", "--topology=v5e:2x2"]
  words.append(f"--output_dir={root}")
  assert cli.main([*words, "--json"]) == 0
  plan = json.loads(capsys.readouterr().out)
  runs = plan["studies"][0]["runs"]
  assert {run["row"] for run in runs} == {"baseline", "no_pretraining"}
  assert plan["total"]["left"] == len(plan["runs"]) == len(runs)
  assert plan["total"]["flops"] == len(runs) * COSTS.flops
  assert plan["total"]["seconds"] is None
  assert len(traced) == 2  # Programs: of pre-training and of fine-tuning.
  bounds = plan["total"]["slice_seconds"]
  assert bounds["in_turn"] > bounds["at_best"] > 0
  assert [path.name for path in root.iterdir()] == [costs.COSTS_FILE]

  finished = root / "runs" / "pretrain-0123456789ab"
  finished.mkdir(parents=True)
  environment.write_environment(finished / "environment.json")
  result = {"seconds": 10.0, "budget": {"flops": COSTS.flops}}
  (finished / "result.json").write_text(json.dumps(result))
  assert cli.main(words) == 0
  assert len(traced) == 2  # The costs of both are remembered.
  text = capsys.readouterr().out
  assert text.startswith("quickstart\nrow ") and "steps on v5e:2x2: " in text
  assert "(at the rate of 1 finished runs)" in text
