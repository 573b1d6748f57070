"""Slices: what travels, and that two of them give what one command gives."""

import contextlib
import dataclasses
import io
import json
import pathlib
import re
import shutil
import tarfile
import threading
import time
import types

import numpy as np
import pytest

from tests.studies import planned
from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.runs import inputs
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.request import PlannedStudy
from transformer_zoo.studies.execution import slices

STUDY = """
Study.question = 'Does it go on?'
Study.rows = (@baseline/Row(),)
"""
SUITE = """
Suite.phases = {'pretrain': %PRETRAIN, 'finetune': %FINETUNE}
PRETRAIN = (
  'runs/miniature_finetune.gin', 'sizes/miniature_small.gin', 'LOG_PERIOD=5',
  "MIXTURE_OR_TASK_NAME='mini_summarize'", 'TRAIN_STEPS=120',
  'CHECKPOINT_PERIOD=50', 'EVAL_PERIOD=0',
)
FINETUNE = (
  'runs/miniature_finetune.gin', 'sizes/miniature_small.gin', 'LOG_PERIOD=5',
  'TRAIN_STEPS=100', 'CHECKPOINT_PERIOD=50', 'EVAL_PERIOD=100',
)
Suite.groups = {'CNNDM': ("MIXTURE_OR_TASK_NAME='mini_summarize'",)}
Suite.columns = (@CNNDM/Column(),)
CNNDM/Column.scores = ('mini_summarize: rouge2',)
"""


def names(folder, series):
  text = b"".join(p.read_bytes() for p in sorted(folder.glob(f"{series}.*")))
  with tarfile.open(fileobj=io.BytesIO(text), mode="r:xz") as archive:
    return set(archive.getnames())


@pytest.fixture
def pool(tmp_path, monkeypatch):
  """A finished run, and one that starts from it and has begun."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(slices, "_plan_files", lambda runs: ())
  monkeypatch.setattr(slices, "_fill", lambda *_: ([], True))
  before, after = (tmp_path / "runs" / name for name in ("pre", "fine"))
  for run, steps in ((before, (40, 80)), (after, (10, 20))):
    for step in steps:
      (run / "checkpoints" / str(step)).mkdir(parents=True)
      (run / "checkpoints" / str(step) / "state").write_bytes(bytes(100))
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "events").write_text("")
    (run / "metrics.jsonl").write_text(f'{{"step": {steps[-1]}}}\n')
  (before / "result.json").write_text('{"step": 80, "best_step": 40}')
  return tmp_path / "runs"


def run_of(phase, folder, **others):
  made = planned.make_run(phase)
  return dataclasses.replace(made, folder=folder, **others)


def runs_of(pool):
  first = run_of("pretrain", pool / "pre")
  return [first, run_of("finetune", pool / "fine", starts=(first.folder,))]


def test_checkpoints_that_go_on_travel_and_no_others(pool, tmp_path):
  slices.pack(tmp_path, pool, runs_of(pool))
  assert names(tmp_path, "state") == {
    "pre/result.json",
    "pre/metrics.jsonl",
    "pre/checkpoints/40/state",  # The best one, from which `fine` starts.
    "fine/metrics.jsonl",
    "fine/checkpoints/20/state",
  }
  (pool / "fine" / "result.json").write_text('{"step": 20}')
  slices.pack(tmp_path, pool, runs_of(pool))
  assert not [n for n in names(tmp_path, "state") if "checkpoints" in n]


def test_what_was_packed_is_unpacked_in_place_of_older_runs(pool, tmp_path):
  slices.pack(tmp_path, pool, runs_of(pool))
  shutil.rmtree(pool / "fine")
  older = pool / "fine" / "checkpoints" / "10"
  older.mkdir(parents=True)
  slices._unpack(tmp_path, pool)
  assert not older.exists()
  assert (pool / "fine" / "checkpoints" / "20" / "state").exists()
  newer = pool / "fine" / "checkpoints" / "30"
  newer.mkdir()
  slices._unpack(tmp_path, pool)
  assert newer.exists()  # It is further than what travelled.
  assert not (pool / ".unpacked").exists()


def test_archives_are_cut_into_parts(pool, tmp_path, monkeypatch):
  monkeypatch.setattr(slices, "PART", 100)
  slices.pack(tmp_path, pool, runs_of(pool))
  parts = sorted(tmp_path.glob("state.*"))
  assert len(parts) > 2
  assert max(part.stat().st_size for part in parts) == 100
  before = names(tmp_path, "state")
  monkeypatch.setattr(slices, "PART", 1 << 20)
  slices.pack(tmp_path, pool, runs_of(pool))
  assert len(list(tmp_path.glob("state.*"))) == 1
  assert names(tmp_path, "state") == before


def test_short_runs_begin_again_where_there_is_no_room(
  pool, tmp_path, monkeypatch, capsys
):
  state = pool / "fine" / "checkpoints" / "20" / "state"
  rng = np.random.default_rng(0)
  state.write_bytes(rng.bytes(20_000))
  monkeypatch.setattr(slices, "LARGEST", 10_000)
  slices.pack(tmp_path, pool, runs_of(pool))
  assert "begins again" in capsys.readouterr().out
  assert {n.split("/")[0] for n in names(tmp_path, "state")} == {"pre"}
  monkeypatch.setattr(slices, "LARGEST", 100)
  with pytest.raises(UserError, match="more than the 100 that travel"):
    slices.pack(tmp_path, pool, runs_of(pool))


def test_data_elsewhere_is_refused():
  run = run_of("pretrain", None, prepared_dir="/data/prepared")
  with pytest.raises(UserError, match="lies below the current folder"):
    list(slices._plan_files([run]))


@pytest.fixture
def mixtures(tmp_path, monkeypatch):
  """Two mixtures of 1,000 random bytes each, and runs that read them."""
  monkeypatch.chdir(tmp_path)
  rng = np.random.default_rng(0)
  for name in ("corpus", "task"):
    (tmp_path / f"{name}.tokens").write_bytes(rng.bytes(1000))
  monkeypatch.setattr(
    slices, "_data_files", lambda name, _: [pathlib.Path(f"{name}.tokens")]
  )
  monkeypatch.setattr(plan, "mark_of_found_data", lambda *_: "0123456789")
  return [
    run_of("pretrain", tmp_path / "pre", mixture="corpus"),
    run_of("finetune", tmp_path / "fine", mixture="task"),
  ]


def test_data_travels_in_the_order_of_the_runs(mixtures, tmp_path):
  first, second = "corpus-01234567", "task-01234567"
  assert slices._fill(tmp_path, mixtures, 10_000) == ([first, second], True)
  assert slices._fill(tmp_path, mixtures, 1_900) == ([first], True)
  assert slices._fill(tmp_path, mixtures[1:], 1_900) == ([second], True)
  assert slices._fill(tmp_path, mixtures, 500) == ([], False)


def test_data_that_is_elsewhere_is_waited_for(mixtures, tmp_path, capsys):
  (tmp_path / "task.tokens").unlink()
  assert slices._fill(tmp_path, mixtures, 10_000) == (["corpus-01234567"], True)
  assert slices._fill(tmp_path, mixtures[1:], 10_000) == ([], True)
  study = PlannedStudy("one", None, tmp_path, mixtures)
  (found,) = slices._ready([study])
  assert [run.mixture for run in found.runs] == ["corpus"]
  assert "1 runs wait for data" in capsys.readouterr().out
  (mixtures[1].folder).mkdir()
  (mixtures[1].folder / "result.json").write_text("{}")
  assert slices._ready([study]) == [study]  # A finished run needs none.


@pytest.mark.parametrize(
  ("options", "told"),
  [
    (["--minutes=1"], "--minutes and --carry go together"),
    (["--carry=x"], "--minutes and --carry go together"),
    (["--carry=x", "--minutes=-1"], "--minutes of 0 or more"),
    (["--carry=x", "--minutes=1", "--plan"], "and no --plan"),
    (["--carry=x", "--minutes=1", "--jobs=2"], "leave --jobs out"),
  ],
)
def test_options_that_do_not_fit(options, told, capsys, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert cli.main(["ablate", "table4", *options]) == 2
  assert told in capsys.readouterr().err
  assert not list(tmp_path.iterdir())


class Watcher:
  """In place of a timer: stops when a phase has logged a step."""

  at = ("", 0)

  def __init__(self, seconds, function):
    del seconds
    self._function = function
    self._over = threading.Event()

  def start(self):
    threading.Thread(target=self._watch, daemon=True).start()

  def cancel(self):
    self._over.set()

  def _watch(self):
    phase, step = self.at
    while not self._over.wait(0.01):
      for path in pathlib.Path("runs/runs").glob(f"{phase}-*/metrics.jsonl"):
        steps = re.findall(r'"step": (\d+)', path.read_text())
        if phase and step <= int((steps or ["0"])[-1]):
          self._function()
          return


@contextlib.contextmanager
def machine(place, carried):
  """A bare machine that takes what is carried, and gives it back."""
  place.mkdir()
  shutil.copytree(carried, place / "carried")
  with contextlib.chdir(place):
    yield
  shutil.rmtree(carried)
  shutil.copytree(place / "carried", carried)


@pytest.mark.slow
def test_slices_on_bare_machines_give_what_one_command_gives(
  tmp_path, monkeypatch
):
  study, suite = tmp_path / "go_on.gin", tmp_path / "tiny.gin"
  study.write_text(STUDY)
  suite.write_text(SUITE)
  command = ["ablate", str(study), f"--suite={suite}", "--seeds=1"]
  home, carried = tmp_path / "home", tmp_path / "carried"
  home.mkdir()
  with contextlib.chdir(home):
    assert cli.main(command) == 0
  sliced = tmp_path / "sliced"
  sliced.mkdir()
  shutil.copytree(home / "runs" / "prepared", sliced / "runs" / "prepared")
  slice_of = [*command, "--carry=carried", "--minutes"]
  with contextlib.chdir(sliced):
    assert cli.main([*slice_of, "0"]) == 0
  shutil.move(sliced / "carried", carried)
  found = inputs.importlib.util.find_spec
  monkeypatch.setattr(  # A machine without SeqIO uses what there is.
    inputs.importlib.util,
    "find_spec",
    lambda name, *others: None if name == "seqio" else found(name, *others),
  )
  timer = types.SimpleNamespace(Timer=Watcher)
  monkeypatch.setattr(slices, "threading", timer)
  began = time.monotonic()
  for number, at in enumerate((("pretrain", 30), ("finetune", 20), ("", 0))):
    monkeypatch.setattr(Watcher, "at", at)
    with machine(tmp_path / f"machine_{number}", carried):
      assert cli.main([*slice_of, "1"]) == 0
    assert sum(p.stat().st_size for p in carried.iterdir()) < slices.LARGEST
    result = "runs/runs/finetune-*/result.json"
    ended = list((tmp_path / f"machine_{number}").glob(result))
    assert bool(ended) == (at == ("", 0)), f"after {time.monotonic() - began} s"
  last = tmp_path / "machine_2" / "runs" / "runs"
  for run in (home / "runs" / "runs").glob("*-*"):
    same = (run / "metrics.jsonl").read_text().splitlines()
    assert (last / run.name / "metrics.jsonl").read_text().splitlines() == same
    one, other = (
      json.loads((folder / run.name / "result.json").read_text())
      for folder in (run.parent, last)
    )
    assert one["scores"] == other["scores"]
    assert one["step"] == other["step"]
