"""Runs of a study in processes of their own, and what several launchers do."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import cloudpickle
import pytest

from transformer_zoo.ablations import claims
from transformer_zoo.ablations import execution
from transformer_zoo.ablations import launchers
from transformer_zoo.ablations import results
from transformer_zoo.ablations import runner
from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.training import loop

HOLD = """
import pathlib, sys
from transformer_zoo.ablations import claims
with claims.claim(pathlib.Path(sys.argv[1])) as mine:
  print(mine, flush=True)
  sys.stdin.read()
"""
RESULT = {"step": 5, "best_step": None, "scores": {}, "seconds": 1.0}
LAST_ROW = ", @same/Row()"


class FakeExecution:
  """Trains nothing, in another process; the first pre-training is killed."""

  def __init__(self, search_paths, cache):
    self.study = pathlib.Path(cache).parent

  def __call__(self, run):
    if (run.folder / "result.json").exists():
      return
    with claims.claim(run.folder) as mine:
      assert mine
      if run.start is not None:
        assert (run.start / "result.json").exists()
      with open(self.study / "trained", "a") as log:
        log.write(f"{run.folder.parent.parent.name} {run.phase.name}\n")
      killed = self.study / "killed"
      if run.phase.name == "pretrain" and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
      (run.folder / "result.json").write_text(json.dumps(RESULT))


@pytest.fixture
def processes(monkeypatch):
  """Jobs get the fake as a copy: their processes cannot import this module."""
  module = sys.modules[__name__]
  cloudpickle.register_pickle_by_value(module)
  monkeypatch.setattr(execution, "Execution", FakeExecution)
  yield
  cloudpickle.unregister_pickle_by_value(module)


def test_processes_train_runs_and_one_is_killed(
  run_tiny, processes, tmp_path, capsys
):
  launch = runner.Launch("local", jobs=2)
  outcome = run_tiny((LAST_ROW, ""), seeds=[0], launch=launch)
  first, second = outcome.failures
  assert first.startswith(
    "baseline / seed 0 / pretrain: its process ended without a result; see "
  )
  assert os.path.exists(first.rpartition("see ")[2])
  assert second.endswith(": not run, because pretrain failed")
  read = results.read(outcome.folder)
  assert read.progress() == "3 runs: 1 finished, 1 interrupted, 1 not run"
  assert read.command.endswith("--seeds=1 --launcher=local --jobs=2")

  assert run_tiny((LAST_ROW, ""), seeds=[0]).failures == ()
  assert sorted((outcome.folder / "trained").read_text().splitlines()) == [
    "baseline finetune",
    "baseline pretrain",
    "baseline pretrain",
    "no_pretraining finetune",
  ]


class Others(launchers.InTurn):
  """While there is nothing to train here, `leave` happens."""

  leave = None

  def ended(self):
    if not self._done:
      Others.leave()
    return super().ended() if self._done else iter(())


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
  """A run that another launcher trains until there is nothing else to do."""
  folder = tmp_path / "runs" / "tiny" / "baseline" / "seed_0" / "pretrain"
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
  assert len(fake.trained) == 3 and folder not in fake.trained
  assert fake.trained[0].parent.parent.name == "no_pretraining"
  assert (
    "run 1 of 4: baseline / seed 0 / pretrain  trained by another launcher: "
    f"process {os.getpid()} on "
  ) in capsys.readouterr().out


def test_what_another_launcher_leaves_is_trained(run_tiny, fake, elsewhere):
  folder = elsewhere(None, "")
  assert run_tiny(seeds=[0]).failures == ()
  assert folder in fake.trained and len(fake.trained) == 4


def test_what_another_launcher_fails_at_is_told(run_tiny, fake, elsewhere):
  elsewhere("error.txt", "loss is NaN\n\nTraceback")
  failures = run_tiny(seeds=[0]).failures
  assert failures[0] == "baseline / seed 0 / pretrain: loss is NaN"
  assert failures[1].endswith("not run, because pretrain failed")
  assert len(fake.trained) == 1


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
      execution.Job("a run", train)()
  finally:
    for each, handler in handlers.items():
      signal.signal(each, handler)
  assert queued == [signal.SIGUSR2] * (number == signal.SIGUSR2)
  assert before == []


@pytest.mark.parametrize(
  "devices, shares",
  [
    ([], [(), ()]),
    ([3], [(3,), (3,)]),
    ([0, 1, 2], [(0, 2), (1,)]),
    ([4, 5, 6, 7], [(4, 6), (5, 7)]),
  ],
)
def test_processes_share_the_gpus(devices, shares):
  found = [launchers.share_of_devices(devices, slot, 2) for slot in (0, 1)]
  assert found == shares


def test_a_report_while_runs_run(run_tiny, fake, capsys):
  fake.broken = lambda folder: "no_pretraining" in folder
  outcome = run_tiny(seeds=[0, 1])
  folder = outcome.folder / "half_as_long" / "seed_1" / "finetune"
  (folder / "result.json").unlink()
  (folder / "config.gin").write_text("TRAIN_STEPS = 10\n")
  (folder / "environment.json").write_text("")  # It is being written.
  capsys.readouterr()
  with claims.claim(folder):
    assert cli.main(["report", str(outcome.folder)]) == 0
    assert cli.main(["report", str(outcome.folder), "--json"]) == 0
  text, _, states = capsys.readouterr().out.partition("report.html\n")
  assert "8 runs: 5 finished, 1 running, 2 failed" in text
  assert (
    "- half_as_long / seed 1 / finetune: running, step 10 of 10, process "
  ) in text
  assert "1 of 2 seeds" in text and "loss is NaN" in text
  page = (outcome.folder / "report.html").read_text()
  assert "Not finished: half_as_long / seed 1 / finetune: running" in page
  assert [one["state"] for one in json.loads(states)].count("failed") == 2


@pytest.mark.parametrize(
  "options, sentence",
  [
    (["--jobs=0"], "--jobs is 0; it has to be 1 or more"),
    (
      ["--jobs=2"],
      "--jobs is 2, but one process trains one run at a time: choose "
      "--launcher local or --launcher slurm",
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
    (["--slurm=a=b"], "--slurm is an option of --launcher slurm alone"),
  ],
)
def test_options_of_launchers(options, sentence, capsys):
  assert cli.main(["ablate", "quickstart", *options]) == cli.USER_ERROR
  assert capsys.readouterr().err == f"zoo: error: {sentence}\n"


def test_submitit_leaves_logging_as_it_is():
  script = """
import logging, sys
handler = logging.StreamHandler(sys.stdout)
handler.close = lambda: print("closed")
logging.getLogger("ours").addHandler(handler)
from transformer_zoo.ablations import launchers
assert launchers.require_submitit("local").LocalExecutor
logging.getLogger("ours").warning("still there")
handler.close = lambda: None
"""
  done = subprocess.run(
    [sys.executable, "-c", script], capture_output=True, text=True
  )
  assert done.stdout == "still there\n", done.stderr


def test_without_submitit(run_tiny, fake, monkeypatch):
  monkeypatch.setattr(launchers.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(UserError) as error:
    run_tiny(launch=runner.Launch("local"))
  assert str(error.value) == (
    "--launcher local needs the package submitit: pip install "
    "'transformer_zoo[launch]'"
  )
