"""Studies as arrays of jobs: the commands that a stand-in of SLURM receives."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design.request import Launch
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.execution import slurm
from transformer_zoo.training import loop

submitit = slurm.require_submitit()

SBATCH = """#!/bin/bash
number=$((100 + $(ls "$FAKE_SLURM" | grep -c script)))
cp "$1" "$FAKE_SLURM/script_$number"
echo "Submitted batch job $number"
"""
SQUEUE = """#!/bin/bash
echo "$@" > "$FAKE_SLURM/squeue_arguments"
cat "$FAKE_SLURM/queue"
"""
QUEUE = "100_0\n100_1\n100_2\n101_0\n101_1\n101_2\n101_3\n"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
  """A folder with the scripts that were submitted, and the queue."""
  folder, programs = tmp_path / "cluster", tmp_path / "programs"
  folder.mkdir()
  programs.mkdir()
  (folder / "queue").touch()
  texts = {"sbatch": SBATCH, "squeue": SQUEUE, "srun": "#!/bin/bash\n"}
  for name, text in texts.items():
    (programs / name).write_text(text)
    (programs / name).chmod(0o755)
  monkeypatch.setenv("FAKE_SLURM", str(folder))
  monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
  return folder


def launch(**options):
  given = {"partition": "gpu", "gpus_per_node": "1"} | options
  return Launch("submitit", jobs=2, options=given)


def pool(study):
  return study.parent / "runs"


def scripts(cluster):
  """The options of every submission, by its number."""
  return {
    int(path.name.removeprefix("script_")): dict(
      re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", path.read_text(), re.M)
    )
    for path in sorted(cluster.glob("script_*"))
  }


def run_job(study, number):
  """What the cluster does when a job's turn has come."""
  pickled = pool(study) / "jobs" / f"{number}_submitted.pkl"
  submitit.core.utils.DelayedSubmission.load(pickled).function()


def test_runs_are_arrays_and_wait_for_those_they_start_from(
  run_tiny, fake, cluster, capsys
):
  outcome = run_tiny(seeds=[0], launch=launch())
  assert outcome.failures == () and fake.trained == []
  first, second = scripts(cluster).values()
  assert first["array"] == "0-2%2" and second["array"] == "0-3%2"
  assert first["partition"] == "gpu" and first["gpus-per-node"] == "1"
  assert first["job-name"] == "tiny" and first["time"] == "1440"
  assert first["signal"] == "USR2@90" and "requeue" in first
  assert "dependency" not in first
  assert second["dependency"] == "afterok:100_0"
  assert second["kill-on-invalid-dep"] == "yes"
  out = capsys.readouterr().out
  assert "job 101: 4 runs, after job 100_0" in out
  assert f"zoo report {outcome.folder}" in out
  states = [run.state for run in results.read(outcome.folder).runs]
  assert set(states) == {"not run"}  # The queue is empty by now.

  (cluster / "queue").write_text(QUEUE)
  read = results.read(outcome.folder)
  assert {run.state for run in read.runs} == {"queued"}
  assert "queued, job 101_0" in read.runs[1].sentence
  assert "--array" in (cluster / "squeue_arguments").read_text()


def test_seeds_wait_for_the_search_and_choose_when_they_start(
  run_tiny, fake, cluster
):
  grid = "{'finetune': (('TRAIN_STEPS=10',), ('TRAIN_STEPS=30',))}"
  study = run_tiny(
    ("Study.question", f"Study.grids = {grid}\nStudy.question"),
    ("@baseline/Row(), ", ""),
    ("baseline/Row.label", "#"),
    (" @half_as_long/Row()", ""),
    ("half_as_long/Row.changes", "#"),
    seeds=[0, 1],
    launch=launch(),
  ).folder
  # The search of both groups, then the second seed of each.
  first, *others = scripts(cluster).values()
  assert first["array"] == "0-3%2"
  assert [one["dependency"] for one in others] == [
    "afterok:100_0:100_1",
    "afterok:100_2:100_3",
  ]
  with pytest.raises(UserError, match="the search of no_pretraining / seed 1 "):
    run_job(study, "101")
  for number in (*(f"100_{index}" for index in range(4)), "101", "102"):
    run_job(study, number)
  read = results.read(study)
  assert read.unfinished() == () and len(fake.trained) == 6
  for search in read.searches():
    chosen = read.scored_runs("no_pretraining", search.runs[0].group)
    steps = search.runs[search.chosen].result["step"]
    assert [run.result["step"] for run in chosen] == [steps, steps]


def test_what_is_on_its_way_is_not_submitted_again(run_tiny, fake, cluster):
  run_tiny(seeds=[0], launch=launch())
  (cluster / "queue").write_text(QUEUE)
  run_tiny(seeds=[0], launch=launch())
  assert len(scripts(cluster)) == 2
  # One of those that start from a run in the queue was cancelled.
  (cluster / "queue").write_text(QUEUE.replace("101_0\n", ""))
  run_tiny(seeds=[0], launch=launch())
  assert scripts(cluster)[102]["dependency"] == "afterok:100_0"
  assert "array" not in scripts(cluster)[102]


def test_a_failed_job_is_told_and_submitted_again(run_tiny, fake, cluster):
  study = run_tiny(seeds=[0], launch=launch()).folder
  fake.broken = lambda what: what.startswith("corpus")
  with pytest.raises(FloatingPointError):
    run_job(study, "100_0")
  for number in ("100_1", "100_2"):
    run_job(study, number)
  read = results.read(study)
  assert [run.sentence.partition(": ")[2] for run in read.unfinished()] == [
    "FloatingPointError: loss is NaN at step 7",
    *["not run, because pretrain failed"] * 4,
  ]
  fake.broken = lambda what: False
  run_tiny(seeds=[0], launch=launch())
  assert "array" not in scripts(cluster)[102]
  assert scripts(cluster)[103]["dependency"] == "afterok:102"
  (cluster / "queue").write_text("102\n103_0\n103_1\n103_2\n103_3\n")
  assert (
    results.read(study)
    .unfinished()[0]
    .sentence.endswith("pretrain: queued, job 102")
  )
  run_job(study, "102")
  for number in range(4):
    run_job(study, f"103_{number}")
  assert results.read(study).unfinished() == ()
  assert len(fake.trained) == 7


def test_a_cluster_that_does_not_answer(run_tiny, fake, cluster):
  run_tiny(seeds=[0], launch=launch())
  (cluster / "queue").unlink()
  with pytest.raises(UserError, match="squeue does not list the jobs"):
    run_tiny(seeds=[0], launch=launch())
  assert len(scripts(cluster)) == 2


def test_jobs_that_are_not_known(run_tiny, fake, cluster):
  path = pool(run_tiny(seeds=[0], launch=launch()).folder) / "jobs.json"
  path.write_text('{"baseline/')
  with pytest.raises(UserError) as error:
    run_tiny(seeds=[0], launch=launch())
  assert str(error.value) == (
    f"{path} is damaged, so the jobs of the studies are not known; remove "
    "the file when `squeue --me` lists none of them"
  )
  assert len(scripts(cluster)) == 2


def test_a_cluster_that_refuses(run_tiny, fake, cluster, tmp_path):
  sbatch = tmp_path / "programs" / "sbatch"
  sbatch.write_text("#!/bin/bash\necho 'invalid partition' >&2\nexit 1\n")
  with pytest.raises(UserError, match="sbatch refused the runs: .*invalid p"):
    run_tiny(seeds=[0], launch=launch())


@pytest.mark.parametrize(
  "options, sentence",
  [
    (
      {"partitoin": "gpu"},
      "--slurm partitoin is none of sbatch's options that submitit knows; did "
      "you mean 'partition'?",
    ),
    (
      {"nodes": "2"},
      "--slurm nodes=2: a run of a study is one process with the GPUs of a "
      "node; scripts/slurm.sh runs one on several nodes",
    ),
    ({"time": "4:00:00"}, "--slurm time=4:00:00 is no number of minutes"),
  ],
)
def test_options_of_sbatch(run_tiny, fake, cluster, options, sentence):
  with pytest.raises(UserError) as error:
    run_tiny(launch=Launch("submitit", options=options))
  assert str(error.value) == sentence


def test_without_slurm(monkeypatch):
  monkeypatch.setenv("PATH", "")
  assert not Launch("submitit").is_queued
  with pytest.raises(UserError) as error:
    launch()
  assert str(error.value) == (
    "--slurm is an option of --executor submitit on a machine that has SLURM "
    "(sbatch) alone"
  )


def test_half_of_slurm(run_tiny, fake, cluster, tmp_path, monkeypatch):
  monkeypatch.setenv("PATH", str(tmp_path / "programs"))
  (tmp_path / "programs" / "srun").unlink()
  with pytest.raises(UserError) as error:
    run_tiny(seeds=[0], launch=launch())
  assert str(error.value) == (
    "there is sbatch here, but no srun: run this on a login node of SLURM, or "
    "use --executor local"
  )


def test_jobs_are_told_by_the_folders_of_runs(run_tiny, fake, cluster):
  study = run_tiny(seeds=[0], launch=launch()).folder
  jobs = json.loads((pool(study) / "jobs.json").read_text())
  runs = [run for run in results.read(study).runs if not run.shared]
  assert jobs == {
    run.folder.name: job
    for run, job in zip(
      runs,
      ["100_0", "101_0", "101_1", "100_1", "100_2", "101_2", "101_3"],
      strict=True,
    )
  }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_job_at_its_limit_goes_back_to_the_queue(number):
  queued, before = [], []

  def at_limit(*_):
    queued.append(number)

  def train(run):
    signal.raise_signal(number)
    before.append(run)

  handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR2)}
  signal.signal(signal.SIGUSR2, at_limit)
  try:
    with pytest.raises(loop.Preempted):
      slurm.Job("a run", train)()
  finally:
    for each, handler in handlers.items():
      signal.signal(each, handler)
  assert queued == [signal.SIGUSR2] * (number == signal.SIGUSR2)
  assert before == []


@pytest.mark.slow
def test_submitit_leaves_logging_as_it_is():
  script = """
import logging, sys
handler = logging.StreamHandler(sys.stdout)
handler.close = lambda: print("closed")
logging.getLogger("ours").addHandler(handler)
from transformer_zoo.studies.execution import slurm
assert slurm.require_submitit().LocalExecutor
logging.getLogger("ours").warning("still there")
handler.close = lambda: None
"""
  done = subprocess.run(
    [sys.executable, "-c", script], capture_output=True, text=True
  )
  assert done.stdout == "still there\n", done.stderr
