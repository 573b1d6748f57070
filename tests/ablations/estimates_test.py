"""How long studies will take, from runs whose times are given."""

import dataclasses
import json
import pathlib

import pytest

from transformer_zoo.ablations import estimates
from transformer_zoo.ablations import plan
from transformer_zoo.ablations import plan_report
from transformer_zoo.ablations import rehearsal
from transformer_zoo.ablations import speeds
from transformer_zoo.ablations import standing
from transformer_zoo.ablations.speeds import Kind
from transformer_zoo.ablations.speeds import Speed
from transformer_zoo.cli import main as cli
from transformer_zoo.experiment.run_costs import RunCosts
from transformer_zoo.forecast import hardware
from transformer_zoo.forecast.cost import Cost
from transformer_zoo.training import recorder

SMALL = Kind("small", "glue")
COSTS = RunCosts(
  parameters=1000,
  trained_parameters=100,
  steps=50,
  input_tokens=5000,
  target_tokens=500,
  flops=10**9,
  executed=Cost(10**9, 10**9, 10**6),
  saves=2,
  evaluations=2,
)


def make_run(name, *, starts=(), command="train", row="baseline"):
  return plan.Run(
    row=row,
    seed=0,
    group="",
    phase=name,
    member=0,
    random_seed=0,
    mixture="glue",
    changes=(),
    command=command,
    scored=True,
    folder=pathlib.Path("runs") / name,
    fingerprint=name,
    starts=starts,
    shared=False,
  )


def make_job(name, kind=SMALL, costs=COSTS, state=standing.NOT_RUN, **of_run):
  return estimates.Job(make_run(name, **of_run), state, kind, costs)


def speed(kind=SMALL, **changes):
  values = {"beginning": 7.0, "step": 0.5, "evaluation": 3.0, "save": 0.25}
  return Speed(kind, **values | {"flops": 2e7} | changes)


@pytest.fixture
def estimated(tmp_path, monkeypatch):
  """Estimates jobs from speeds; tells which runs would have been rehearsed."""
  monkeypatch.setattr(speeds, "machine", lambda: "this one")
  rehearsed = []

  def rehearse(run, *places):
    rehearsed.append(run.phase)
    raise OSError("no data here")

  monkeypatch.setattr(rehearsal, "rehearse", rehearse)

  def estimate(jobs, known=(), say=lambda text: None):
    book = speeds.Speeds(tmp_path / estimates.SPEEDS_FILE)
    for number, one in enumerate(known):
      book.add(f"run-{number}", one)
    jobs = estimates.with_seconds(
      jobs, output_dir=tmp_path, cache=tmp_path / "cache", say=say
    )
    return jobs, rehearsed

  return estimate


def test_parts_add_up_and_a_program_begins_once(estimated):
  known = [speed(beginning=9.0), speed(), speed(step=0.5)]
  (first, again, done), rehearsed = estimated(
    [
      make_job("a"),
      make_job("b"),
      make_job("c", state=standing.FINISHED),
    ],
    known,
  )
  assert first.seconds == 9 + 50 * 0.5 + 2 * 3 + 2 * 0.25
  assert again.seconds == first.seconds - 2
  assert done.seconds == 0 and rehearsed == []
  assert first.source == estimates.MEASURED


def test_runs_count_before_rehearsals(estimated):
  known = [speed(step=99.0, rehearsed=True), speed()]
  ((job,), _) = estimated([make_job("a")], known)
  assert job.seconds == 7 + 50 * 0.5 + 2 * 3 + 2 * 0.25
  ((job,), _) = estimated([make_job("a", Kind("else", "glue"))], known[:1])
  assert job.source == estimates.SCALED


def test_another_mixture_is_rehearsed_or_taken_from_other_programs(estimated):
  large = speed(Kind("large", "glue"), step=2.0, evaluation=12.0)
  squad = speed(Kind("small", "squad"), evaluation=5.0)
  wanted = Kind("large", "squad")
  ((job,), rehearsed) = estimated([make_job("a", wanted)], [large, squad])
  assert rehearsed == []  # The program is known, and the mixture.
  # Decoding takes as much longer than the small one's as the steps do.
  assert job.seconds == 7 + 50 * 2.0 + 2 * (5 * 2.0 / 0.5) + 2 * 0.25


def test_another_program_of_a_phase_is_scaled_and_not_rehearsed(estimated):
  compiled = speed(beginning=20.0, rehearsed=True, compiled=True)
  known = [
    compiled,
    speed(rehearsed=True),
    speed(beginning=5.0, rehearsed=True),
  ]
  twice = dataclasses.replace(COSTS, flops=2 * COSTS.flops)
  large = Kind("large", "glue")
  (base, first, again), rehearsed = estimated(
    [
      make_job("a"),
      make_job("a", large, twice, row="large"),
      make_job("a", large, twice, row="large"),
    ],
    known,
  )
  assert rehearsed == []
  assert base.seconds == 7 + 50 * 0.5 + 2 * 3 + 2 * 0.25
  # Nothing has compiled it before, and its steps have twice the FLOPs.
  assert first.seconds == 20 + 2 * 50 * 0.5 + 2 * 3 + 2 * 0.25
  assert again.seconds == first.seconds - 20 + 5
  assert first.source == estimates.SCALED


def test_what_nothing_is_known_of_is_rehearsed(estimated):
  said = []
  ((job,), rehearsed) = estimated([make_job("a")], say=said.append)
  assert rehearsed == ["a"]
  assert said == [
    "rehearsing a few steps of baseline / seed 0 / a",
    "  not rehearsed: OSError: no data here",
  ]
  assert job.seconds is None and job.source == estimates.UNKNOWN


@pytest.mark.parametrize(
  ("changes", "why"),
  [
    ({"parameters": 10**14}, "100,000,000,000,000 parameters are too many"),
    ({"flops": 10**14}, "it would take about"),
  ],
)
def test_what_is_too_large_is_scaled_by_flops(estimated, changes, why):
  said = []
  costs = dataclasses.replace(COSTS, **changes)
  jobs = [make_job("a", Kind("huge", "c4"), costs)]
  ((job,), rehearsed) = estimated(jobs, [speed()], said.append)
  assert rehearsed == [] and why in said[0]
  assert job.source == estimates.SCALED
  steps = costs.flops / 2e7 * 0.5
  # How long its evaluations take, nothing tells.
  assert job.seconds == pytest.approx(7 + steps + 2 * 0.25)


def test_an_ensemble_evaluates_each_member(estimated):
  members = [make_job(name) for name in ("a", "b")]
  starts = tuple(job.run.folder for job in members)
  both = make_job("both", costs=None, starts=starts, command="evaluate")
  jobs, _ = estimated([*members, both], [speed()])
  assert jobs[-1].seconds == 7 + 2 * 3


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
  assert rehearsed.step == 2.5  # Of the last steps alone.
  write_run(tmp_path / "b", evaluations=())
  assert speeds.measured(tmp_path / "b", SMALL).evaluation == 0
  (tmp_path / "b" / "result.json").write_text("{}")
  assert speeds.measured(tmp_path / "b", SMALL) is None


def test_another_machine_tells_nothing(tmp_path, monkeypatch):
  file = tmp_path / "speeds.json"
  monkeypatch.setattr(speeds, "machine", lambda: "that one")
  speeds.Speeds(file).add("a", speed())
  assert speeds.Speeds(file).matching(program="small") == [speed()]
  monkeypatch.setattr(speeds, "machine", lambda: "this one")
  assert speeds.Speeds(file).matching() == []


def test_a_slice_is_told_by_its_roofline():
  chip = hardware.named("v5e")
  job = estimates._with_bounds(make_job("a"), chip, 16)
  compute = 10**9 / (16 * chip.peak_flops)
  memory = 10**6 / (16 * chip.memory_bandwidth)
  assert job.on_slice.in_turn.seconds == pytest.approx(compute + memory)


def test_the_plan_counts_shared_runs_once(estimated):
  pretrain = make_run("pretrain")
  runs = [
    pretrain,
    make_run("finetune", starts=(pretrain.folder,)),
    dataclasses.replace(pretrain, row="longer", shared=True),
    make_run("longer", row="longer", starts=(pretrain.folder,)),
  ]
  jobs, _ = estimated(
    [make_job(name) for name in ("pretrain", "finetune", "longer")], [speed()]
  )
  text = plan_report.as_text([("tiny", runs)], jobs)
  lines = [line.split() for line in text.splitlines()]
  assert ["baseline", "pretrain", "1", "0", "1,000", "100", "50"] == lines[2][
    :7
  ]
  assert ["longer", "pretrain", "0", "1", "1,000"] == lines[4][:5]
  assert "3 distinct runs, 0 of them finished; left: about 1 min 56 s" in text
  assert "(3 measured)" in text
  told = plan_report.as_json([("tiny", runs)], jobs)
  assert told["total"]["flops"] == 3 * 10**9
  assert told["total"]["input_tokens"] == 15_000
  assert told["total"]["seconds"] == sum(job["seconds"] for job in told["runs"])
  assert [run["shared"] for run in told["studies"][0]["runs"]] == [
    *(False, False, True, False)
  ]


def test_a_time_that_is_not_known_is_not_made_up():
  text = plan_report.as_text([("tiny", [make_run("a")])], [make_job("a")])
  assert "left: a time that is not known on" not in text
  assert "left: a time that is not known (1 unknown)" in text
  assert "time unknown of: baseline / seed 0 / a" in text


def test_the_command_prints_the_plan_alone(tmp_path, monkeypatch, capsys):
  traced = []

  def of_settings(settings):
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
  assert "rehearsing a few steps of baseline / seed 0 / pretrain" in printed.err
  runs = told["studies"][0]["runs"]
  assert {run["row"] for run in runs} == {"baseline", "no_pretraining"}
  assert told["total"]["left"] == len(told["runs"]) == len(runs)
  assert told["total"]["flops"] == len(runs) * COSTS.flops
  assert len(traced) == 2  # Programs: of pre-training and of fine-tuning.
  bounds = told["total"]["slice_seconds"]
  assert bounds["in_turn"] > bounds["at_best"] > 0
  assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
    "speeds.json"
  ]
  assert cli.main(words) == 0
  text = capsys.readouterr().out
  assert text.startswith("quickstart\nrow ") and "steps on v5e:2x2: " in text
