"""Several launchers on one pool of runs, and the options of launchers."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.processes import claims
from transformer_zoo.studies.execution import launchers
from transformer_zoo.studies.execution import results

HOLD = """
import pathlib, sys
from transformer_zoo.processes import claims
with claims.claim(pathlib.Path(sys.argv[1])) as mine:
  print(mine, flush=True)
  sys.stdin.read()
"""
RESULT = {"step": 5, "best_step": None, "scores": {}, "seconds": 1.0}


class Others(launchers.InTurn):
  """While there is nothing to train here, `leave` happens."""

  leave = None

  def ended(self):
    if not self._done:
      Others.leave()
    return super().ended() if self._done else iter(())


@pytest.fixture
def elsewhere(monkeypatch, fake, run_tiny):
  """A run that another launcher trains until there is nothing else to do."""
  fake.broken = lambda what: True
  runs = results.read(run_tiny(seeds=[0]).folder).runs
  for run in runs:
    (run.folder / "error.txt").unlink(missing_ok=True)
  fake.broken = lambda what: False
  folder = runs[0].folder
  monkeypatch.setattr(launchers, "InTurn", Others)
  with contextlib.ExitStack() as held:
    assert held.enter_context(claims.claim(folder))

    def ends_with(name, text):
      def leave():
        if name:
          (folder / name).write_text(text)
        held.close()

      monkeypatch.setattr(Others, "leave", leave)
      return folder

    yield ends_with


def test_what_another_launcher_trains_is_waited_for(
  run_tiny, fake, elsewhere, capsys
):
  folder = elsewhere("result.json", json.dumps(RESULT))
  assert run_tiny(seeds=[0]).failures == ()
  assert len(fake.trained) == 6 and folder not in fake.trained
  assert fake.trained[0] not in fake.started_from
  assert (
    "run 1 of 7: baseline / seed 0 / pretrain  trained by another launcher: "
    f"process {os.getpid()} on "
  ) in capsys.readouterr().out


def test_what_another_launcher_leaves_is_trained(run_tiny, fake, elsewhere):
  folder = elsewhere(None, "")
  assert run_tiny(seeds=[0]).failures == ()
  assert folder in fake.trained and len(fake.trained) == 7


def test_what_another_launcher_fails_at_is_told(run_tiny, fake, elsewhere):
  elsewhere("error.txt", "loss is NaN\n\nTraceback")
  failures = run_tiny(seeds=[0]).failures
  assert failures[0] == "baseline / seed 0 / pretrain: loss is NaN"
  assert failures[1].endswith("not run, because pretrain failed")
  assert len(fake.trained) == 2


@pytest.mark.slow
def test_a_claim_ends_with_the_process_that_holds_it(tmp_path):
  assert claims.owner(tmp_path) is None
  holder = subprocess.Popen(
    [sys.executable, "-c", HOLD, str(tmp_path)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert holder.stdout.readline() == "True\n"
  with claims.claim(tmp_path) as mine:
    assert not mine
  assert f"process {holder.pid} on " in claims.owner(tmp_path)
  holder.kill()
  holder.communicate()
  assert claims.owner(tmp_path) is None
  with claims.claim(tmp_path) as mine:
    assert mine


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
  def refuse(file, kind):
    raise OSError(37, "No locks available")

  monkeypatch.setattr(claims.fcntl, "flock", refuse)
  with pytest.raises(UserError, match="claim cannot be locked .No locks avail"):
    with claims.claim(tmp_path):
      pass


def test_a_report_while_runs_run(run_tiny, fake, capsys):
  fake.broken = lambda what: what.endswith(" 10 steps")
  outcome = run_tiny(seeds=[0, 1])
  (running,) = [
    run
    for run in results.read(outcome.folder).runs
    if (run.row, run.seed, run.group) == ("baseline", 1, "similarity")
  ]
  folder = running.folder
  (folder / "result.json").unlink()
  (folder / "config.gin").write_text("TRAIN_STEPS = 20\n")
  (folder / "environment.json").write_text("")  # It is being written.
  capsys.readouterr()
  with claims.claim(folder):
    assert cli.main(["report", str(outcome.folder)]) == 0
    assert cli.main(["report", str(outcome.folder), "--json"]) == 0
  text, _, states = capsys.readouterr().out.partition("report.html\n")
  assert "14 runs: 9 finished, 1 running, 4 failed" in text
  assert (
    "- baseline / seed 1 / similarity / finetune: running, step 20 of 20, "
    "process "
  ) in text
  assert "loss is NaN" in text
  told = json.loads(states)["runs"]
  assert [one["state"] for one in told].count("failed") == 4


@pytest.mark.parametrize(
  "options, sentence",
  [
    (["--jobs=0"], "--jobs is 0; it has to be 1 or more"),
    (
      ["--executor=submitti"],
      "executor 'submitti' is none of local, submitit; did you mean "
      "'submitit'?",
    ),
    (["--json"], "--json is an option of --plan alone"),
    (["--topology=v5e:2x2"], "--topology is an option of --plan alone"),
    (["quickstart"], "study 'quickstart' is named twice"),
    (
      ["--plan", "--topology=v5f:4x4"],
      "unknown TPU slice 'v5f:4x4'; did you mean 'v5p', 'v5e'?; write it "
      "as v2:4x4, v3:4x4, v4:4x4x4, v5e:4x4, v5p:4x4x4, v6e:4x4, 7x:4x4x4",
    ),
    (
      ["--slurm=partition"],
      "--slurm is 'partition'; write it as partition=gpu",
    ),
    (
      ["--output_dir=gs://b/runs"],
      "--output_dir is 'gs://b/runs'; the runs of a study share a folder, so "
      "give one that all of their machines see as a file system",
    ),
    (
      [f"--output_dir={__file__}"],
      f"--output_dir is {__file__!r}, a file; name the folder of the studies",
    ),
    (
      ["--slurm=a=b"],
      "--slurm is an option of --executor submitit on a machine that has SLURM "
      "(sbatch) alone",
    ),
  ],
)
def test_options_of_launchers(options, sentence, capsys):
  assert cli.main(["ablate", "quickstart", *options]) == cli.USER_ERROR
  assert capsys.readouterr().err == f"zoo: error: {sentence}\n"
