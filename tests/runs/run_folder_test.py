"""Rules for resuming in a run folder: configuration, data, owner."""

import multiprocessing
import os

import pytest

from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError
from transformer_zoo.runs import run_folder


def text(folder, start):
  return (
    f"INITIAL_CHECKPOINT_PATH = {start!r}\nMODEL_DIR = {folder!r}\n"
    "TRAIN_STEPS = 5\n\ntrain.model_dir = %MODEL_DIR\n"
  )


def goes_on(tmp_path, before, now):
  """Whether the run goes on; the refusal names nothing but the checkpoint."""
  (tmp_path / "config.gin").write_text(before)
  try:
    run_folder.check(tmp_path, now)
  except UserError as error:
    (_, place), (_, other) = (
      line.split(" = ")
      for line in (before.splitlines()[0], now.splitlines()[0])
    )
    assert f"(INITIAL_CHECKPOINT_PATH was {place} and is {other})" in str(error)
    return False
  return True


@pytest.mark.parametrize(
  "folder, start",
  [
    ("new/fine", "new/pre/checkpoints/5"),  # Moved.
    ("/new/fine", "/new/pre/checkpoints/5"),
    ("other/fine", "./runs/../runs/pre/checkpoints/5"),  # The run folder only.
    ("runs/fine", "link/pre/checkpoints/5"),
    ("/new/fine", "{here}/runs/pre/checkpoints/5"),
  ],
)
def test_a_checkpoint_may_be_spelled_another_way(
  tmp_path, monkeypatch, folder, start
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "runs").mkdir()
  (tmp_path / "link").symlink_to("runs")
  before = text("runs/fine", "runs/pre/checkpoints/5")
  assert goes_on(tmp_path, before, text(folder, start.format(here=tmp_path)))


@pytest.mark.parametrize(
  "folder, start",
  [
    ("runs/fine", "runs/pre/checkpoints/10"),
    ("runs/fine", "runs/pre2/checkpoints/5"),
    ("new/fine", "/elsewhere/pre/checkpoints/5"),
    ("gs://b/fine", "gs://b/other/checkpoints/5"),
    ("runs/fine", None),
  ],
)
def test_another_checkpoint_is_refused(tmp_path, folder, start):
  before = text("runs/fine", "runs/pre/checkpoints/5")
  assert not goes_on(tmp_path, before, text(folder, start))


def test_a_run_keeps_to_its_data(tmp_path):
  first = {"rates": "(1.0,)", "sst2": {"vocabulary": "a", "train": "b"}}
  run_folder.claim_data(tmp_path / "run", first)
  run_folder.claim_data(tmp_path / "run", first)
  other = {**first, "sst2": {"vocabulary": "c", "train": "b"}}
  with pytest.raises(UserError) as caught:
    run_folder.claim_data(tmp_path / "run", other)
  assert str(caught.value) == (
    f"run folder {str(tmp_path / 'run')!r} has read other data (sst2 "
    "vocabulary is a and c); bring that back (ZOO_VOCABULARY, PREPARED_DIR, "
    "the task), or "
    "choose another MODEL_DIR"
  )


def hold(folder, ready, done):
  with run_folder.alone(folder):
    ready.set()
    done.wait()


@pytest.mark.slow
def test_one_program_trains_in_a_folder(tmp_path):
  context = multiprocessing.get_context("spawn")
  ready, done = context.Event(), context.Event()
  other = context.Process(target=hold, args=(tmp_path, ready, done))
  other.start()
  try:
    assert ready.wait(60)
    with pytest.raises(UserError) as caught, run_folder.alone(tmp_path):
      pass
    assert f"process {other.pid} on " in str(caught.value)
    assert f"trains in {str(tmp_path)!r}; wait until" in str(caught.value)
  finally:
    done.set()
    other.join()
  with run_folder.alone(tmp_path):
    pass


def test_a_file_system_without_locks_keeps_nobody(tmp_path, monkeypatch):
  def refuse(*_):
    raise OSError(os.strerror(95))

  monkeypatch.setattr(run_folder.claims.fcntl, "flock", refuse)
  with run_folder.alone(tmp_path):
    pass


def test_every_process_describes_its_own_folder_of_a_url(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(run_folder.distributed, "is_first", lambda: False)
  described = []
  monkeypatch.setattr(
    run_folder, "_describe", lambda folder, *_: described.append(folder)
  )
  shared, own = tmp_path / "run", run_layout.URLS / "gs%3A%2F%2Fbucket.1"
  with pytest.raises(UserError, match="is not the same for all processes"):
    run_folder.claim(shared, "text", None, {})
  assert not described
  own.mkdir(parents=True)
  (own / "config.gin").touch()
  run_folder.claim(own, "text", None, {})
  assert described == [own]


@pytest.mark.parametrize(
  "steps, told", [((), "no step is saved yet"), ((5, 12), "step 12 is saved")]
)
def test_an_interrupted_run_prints_how_it_continues(
  tmp_path, monkeypatch, capsys, steps, told
):
  for step in steps:
    (tmp_path / str(step)).mkdir()
  program = tmp_path / "zoo"
  program.touch(mode=0o755)
  words = [str(program), "train", "--gin.MODEL_DIR='runs/a'"]
  monkeypatch.setattr("sys.argv", words)
  monkeypatch.setattr("sys.orig_argv", ["python", *words])
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(KeyboardInterrupt), run_folder.continued(tmp_path):
    raise KeyboardInterrupt
  assert capsys.readouterr().out == (
    f"{told}; continue with\n"
    "  zoo train '--gin.MODEL_DIR='\"'\"'runs/a'\"'\"''\n"
  )


@pytest.mark.parametrize("kind", ["file", "denied", "new"])
def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, kind):
  place = tmp_path / "place"
  place.touch() if kind == "file" else place.mkdir()
  if kind == "denied":  # Root may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
  if kind == "new":
    run_folder.check_writable(place / "runs" / "a")
    return
  told = "is no folder" if kind == "file" else "cannot be written"
  with pytest.raises(UserError, match=f"'{place}' {told}; name another"):
    run_folder.check_writable(place / "a")
