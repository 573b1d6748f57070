"""Runs of a study in several processes of this machine."""

from concurrent.futures.process import BrokenProcessPool
import json
import os
import pathlib
import signal

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.processes import claims
from transformer_zoo.studies.design.request import Launch
from transformer_zoo.studies.execution import launchers
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.execution import single_run
from transformer_zoo.training import loop

RESULT = {"step": 5, "best_step": None, "scores": {}, "seconds": 1.0}
LAST_ROW = ", @half_as_long/Row()"


class FakeExecution:
  """Trains nothing, in another process; the first pre-training is killed."""

  def __init__(self, search_paths, cache):
    self.study = pathlib.Path(cache).parent

  def __call__(self, run):
    if (run.folder / "result.json").exists():
      return
    with claims.claim(run.folder) as mine:
      assert mine
      for start in run.starts:
        assert (start / "result.json").exists()
      with open(self.study / "trained", "a") as log:
        cores = sorted(os.sched_getaffinity(0))
        log.write(json.dumps([run.row, run.phase, os.getpid(), cores]) + "\n")
      killed = self.study / "killed"
      if run.phase == "pretrain" and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
      (run.folder / "result.json").write_text(json.dumps(RESULT))


@pytest.mark.slow
def test_workers_train_runs_and_one_is_killed(
  run_tiny, monkeypatch, tmp_path, capsys
):
  monkeypatch.setattr(single_run, "Execution", FakeExecution)
  launch = Launch(jobs=2)
  rows = "half_as_long/Row.changes", "#"
  outcome = run_tiny((LAST_ROW, ""), rows, seeds=[0], launch=launch)
  first, *others = outcome.failures
  assert first.startswith(
    "baseline / seed 0 / pretrain: the process of worker 1 ended abruptly, as "
    "by a signal or for want of memory; see "
  )
  assert os.path.exists(first.rpartition("see ")[2])
  assert len(others) == 2
  assert others[0].endswith(": not run, because pretrain failed")
  read = results.read(outcome.folder)
  assert read.progress() == "5 runs: 2 finished, 1 interrupted, 2 not run"
  assert read.command.endswith("--seeds=1 --jobs=2")

  assert run_tiny((LAST_ROW, ""), rows, seeds=[0]).failures == ()
  lines = (tmp_path / "runs" / "trained").read_text().splitlines()
  trained = list(map(json.loads, lines))
  assert sorted((row, phase) for row, phase, *_ in trained) == [
    *[("baseline", "finetune")] * 2,
    *[("baseline", "pretrain")] * 2,
    *[("no_pretraining", "finetune")] * 2,
  ]
  here = len(os.sched_getaffinity(0))
  for *_, process, cores in trained[:3]:
    assert process != os.getpid() and 1 <= len(cores) <= (here + 1) // 2


class Run:
  """What a launcher needs of a run."""

  def __init__(self, name):
    self.name = name


class Acts:
  """Does what the name of a run says."""

  def __init__(self, folder):
    self.folder = folder

  def __call__(self, run):
    print("acts:", run.name)
    if run.name == "fails":
      raise ValueError("no such value\nand more")
    if run.name == "is elsewhere":
      raise single_run.Elsewhere("trained by process 1")
    if run.name == "names its process":
      (self.folder / "process").write_text(str(os.getpid()))
    if run.name == "trains long":
      self.train_long()

  def train_long(self):
    try:
      (self.folder / "began").touch()
      signal.pause()
    except loop.Preempted:
      os.kill(os.getpid(), signal.SIGTERM)  # A second one interrupts nothing.
      (self.folder / "saved").touch()
      raise


def ended(launcher):
  """The next run that ends, and what ended it."""
  while True:
    for run, error in launcher.ended():
      return run.name, type(error), str(error)


@pytest.mark.slow
def test_a_worker_trains_runs_until_its_launcher_leaves(tmp_path):
  said = []
  launcher = launchers.WorkerProcesses(Acts(tmp_path), tmp_path, 1, said.append)
  with launcher:
    for name, kind, text in (
      ("ends", type(None), "None"),
      ("fails", UserError, "ValueError: no such value"),
      ("is elsewhere", single_run.Elsewhere, "trained by process 1"),
    ):
      assert launcher.has_room()
      launcher.start(Run(name))
      assert not launcher.has_room()
      assert ended(launcher) == (name, kind, text)
    launcher.start(Run("trains long"))
    while not (tmp_path / "began").exists():
      assert not list(launcher.ended())
  assert (tmp_path / "saved").exists()
  (start, leave) = said
  assert leave == "the workers save their states and end"
  output = pathlib.Path(start.rpartition("it prints into ")[2]).read_text()
  assert [line for line in output.splitlines() if line[:4] == "acts"] == [
    *("acts: ends", "acts: fails", "acts: is elsewhere", "acts: trains long"),
  ]


@pytest.mark.slow
def test_a_worker_that_was_killed_while_idle_is_replaced(tmp_path):
  launcher = launchers.WorkerProcesses(Acts(tmp_path), tmp_path, 1, print)
  with launcher:
    launcher.start(Run("names its process"))
    assert ended(launcher)[1] is type(None)
    process = int((tmp_path / "process").read_text())
    os.kill(process, signal.SIGKILL)
    with pytest.raises(BrokenProcessPool):
      while True:
        launcher._workers[0]._pool.submit(os.getpid).exception()
    launcher.start(Run("names its process"))
    assert ended(launcher) == ("names its process", type(None), "None")
  assert int((tmp_path / "process").read_text()) != process


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


def test_processes_on_one_gpu_divide_its_memory(monkeypatch):
  name = "XLA_PYTHON_CLIENT_MEM_FRACTION"
  monkeypatch.delenv(name, raising=False)
  share = {"CUDA_VISIBLE_DEVICES": "3"}
  assert launchers.gpu_variables([2, 3], 1, 2) == share
  assert launchers.gpu_variables([2, 3], 1, 3) == share | {name: "0.375"}
  monkeypatch.setenv(name, "0.1")
  assert launchers.gpu_variables([2, 3], 1, 3) == share
