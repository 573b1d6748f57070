"""Faults while a run saves: reported, survived, nothing left behind.

Damage of files that were whole: checkpoints_test.py; kills of processes:
tests/runs/restart_test.py.
"""

import contextlib
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.checkpoints.step_folders import StepFolders
from transformer_zoo.training.state import TrainState

GOES_ON = (
  "checkpoint 3 could not be saved (File too large); the checkpoint of step 2 "
  "is whole; training goes on to the next save"
)


# Many arrays: Orbax abandons the writes of the others at the first failure.
MANY_ARRAYS = """
import resource, sys
import jax, numpy as np
from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.state import TrainState

class Fails:
  def __del__(self):
    raise ValueError("another error that nothing can catch")

numbers = np.random.default_rng(0).standard_normal((20, 10_000))
params = {str(i): jax.device_put(array) for i, array in enumerate(numbers)}
checkpoints = Checkpoints(sys.argv[1])
Fails()
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
try:
  checkpoints.finish(3, TrainState(jax.numpy.int32(3), params, ()), {})
except UserError as error:
  print(f"zoo: error: {error}", file=sys.stderr)
  sys.exit(2)
"""


def state(step: int) -> TrainState:
  numbers = np.random.default_rng(step).standard_normal(50_000)
  params = {"kernel": jax.device_put(numbers.astype(np.float32))}
  return TrainState(jax.numpy.int32(step), params, ())


@contextlib.contextmanager
def no_room(bytes_of_a_file=10_000):
  """Every file that any thread of this process writes ends there."""
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, before[1]))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def told():
  return []


@pytest.fixture
def opened(tmp_path, told):
  """Returns a function that opens the run's checkpoints."""
  made = []

  def open_checkpoints(**options):
    checkpoints = Checkpoints(tmp_path, Checkpointing(**options), told.append)
    made.append(checkpoints)
    return checkpoints

  yield open_checkpoints
  for checkpoints in made:
    checkpoints.close()


def restored_step(checkpoints) -> int | None:
  abstract = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
    state(0),
  )
  restored = checkpoints.restore_newest(abstract)
  if restored is None:
    return None
  step = int(restored[0].step)
  jax.tree.map(np.testing.assert_array_equal, restored[0], state(step))
  return step


class TestNoRoom:
  def test_the_run_goes_on_to_the_next_save(self, opened, told, tmp_path):
    checkpoints = opened()
    checkpoints.finish(2, state(2), {})
    checkpoints = opened()
    with no_room():
      checkpoints.save(3, state(3), {})
      checkpoints.close()
    assert told == [GOES_ON]
    assert os.listdir(tmp_path) == ["2"]
    assert restored_step(opened()) == 2
    checkpoints = opened()
    checkpoints.finish(4, state(4), {})
    assert sorted(os.listdir(tmp_path)) == ["2", "4"]
    assert restored_step(opened()) == 4
    assert told == [GOES_ON]

  def test_or_stops(self, opened, told, tmp_path):
    checkpoints = opened(stop_at_failed_save=True)
    with no_room():
      checkpoints.save(3, state(3), {})
      with pytest.raises(UserError) as caught:
        while True:  # The failure is known when the save has ended.
          checkpoints.save(4, state(4), {})
    assert str(caught.value) == (
      "checkpoint 3 could not be saved (File too large); there is none before "
      f"it: make room in {str(tmp_path)!r} and start the same command again"
    )
    assert os.listdir(tmp_path) == []

  def test_the_last_state_is_tried_twice_and_then_the_run_fails(
    self, opened, told, tmp_path
  ):
    checkpoints = opened()
    with no_room(), pytest.raises(UserError, match="make room in") as caught:
      checkpoints.finish(3, state(3), {})
    sentence = str(caught.value).partition(": make room")[0]
    assert told == [f"{sentence}; it is tried once more"]
    assert os.listdir(tmp_path) == []

  def test_the_second_try_may_succeed(self, opened, told, tmp_path):
    failing = contextlib.ExitStack()
    checkpoints = Checkpoints(tmp_path, report=lambda _: failing.close())
    failing.enter_context(no_room())
    checkpoints.finish(3, state(3), {})
    checkpoints.close()
    assert restored_step(opened()) == 3

  @pytest.mark.slow
  def test_the_sentence_is_the_last_line(self, tmp_path):
    done = subprocess.run(
      [sys.executable, "-c", MANY_ARRAYS, str(tmp_path)],
      capture_output=True,
      text=True,
      timeout=120,
    )
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[-2:] == [
      "ValueError: another error that nothing can catch",
      "zoo: error: checkpoint 3 could not be saved (File too large); there is "
      f"none before it: make room in {str(tmp_path)!r} and start the same "
      "command again",
    ]
    assert not [line for line in lines if "never retrieved" in line]
    assert done.stdout.splitlines() == [
      "checkpoint 3 could not be saved (File too large); there is none before "
      "it; it is tried once more"
    ]

  def test_none_left_for_the_checksums(self, opened, told, monkeypatch):
    def write_share(*_):
      raise OSError(28, "No space left on device")

    monkeypatch.setattr(checksums, "write_share", write_share)
    opened().finish(2, state(2), {})
    assert told == [
      "checkpoint 2 is saved without checksums (No space left on device), so "
      "that damage may not be found"
    ]
    monkeypatch.undo()
    assert restored_step(opened()) == 2


def test_what_kills_left_is_removed(opened, tmp_path):
  opened().finish(2, state(2), {})
  for name in ("4.orbax-checkpoint-tmp", "1.removed"):
    shutil.copytree(tmp_path / "2", tmp_path / name)
  assert restored_step(opened()) == 2
  assert os.listdir(tmp_path) == ["2"]


def test_one_that_cannot_be_removed(opened, told, monkeypatch):
  def remove(self, step):
    raise PermissionError(13, "Permission denied")

  monkeypatch.setattr(StepFolders, "remove", remove)
  checkpoints = opened(newest=1, best=0)
  checkpoints.finish(2, state(2), {})
  checkpoints.finish(4, state(4), {})
  assert told == ["checkpoint 2 cannot be removed (Permission denied)"]
  assert restored_step(opened()) == 4


def test_where_nothing_is_renamed(opened, tmp_path, monkeypatch):
  """In an object store a checkpoint counts from its last file on."""
  checkpoints = opened()
  for step in (2, 4, 6):
    checkpoints.save(step, state(step), {})
  checkpoints.close()
  folders = StepFolders(tmp_path)
  monkeypatch.setattr(folders, "_renames", False)
  (tmp_path / "6" / "commit_success.txt").unlink()
  assert folders.steps() == [4]
  folders.remove_leftovers()
  assert os.listdir(tmp_path) == ["4"]
  folders.remove(4)
  assert os.listdir(tmp_path) == [] and folders.steps() == []


@pytest.mark.parametrize("missing", ["state", "progress", "state/_METADATA"])
def test_a_half_written_directory(opened, told, tmp_path, missing):
  """As a copy leaves it that was broken off."""
  opened().finish(2, state(2), {})
  shutil.copytree(tmp_path / "2", tmp_path / "4")
  (tmp_path / "4" / "checksums.json").unlink()
  path = tmp_path / "4" / missing
  path.unlink() if path.is_file() else shutil.rmtree(path)
  assert restored_step(opened()) == 2
  (sentence,) = told
  assert sentence.startswith("checkpoint 4 is damaged (")
  assert sorted(os.listdir(tmp_path)) == ["2", "4.damaged"]


def test_a_clock_that_jumps_decides_nothing(opened, tmp_path, monkeypatch):
  """Ten days back, ten years ahead; files get times in reversed order."""
  day, now = 86_400, time.time()
  checkpoints = opened(newest=2, best=0)
  for step, jump in ((2, 0), (9, -10 * day), (10, 3650 * day), (11, 0)):
    monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
    monkeypatch.setattr(time, "time_ns", lambda jump=jump: int(now + jump))
    checkpoints.save(step, state(step), {})
    checkpoints.close()
    checkpoints = opened(newest=2, best=0)
  assert sorted(os.listdir(tmp_path)) == ["10", "11"]
  os.utime(tmp_path / "10", (now + day, now + day))
  os.utime(tmp_path / "11", (0, 0))
  assert restored_step(checkpoints) == 11


def test_training_goes_on_while_a_checkpoint_is_summed(
  tmp_path, told, monkeypatch
):
  """The next save waits for it, and tells so."""
  go_on, summed = threading.Event(), checksums.write_share

  def write_share(*arguments):
    assert go_on.wait(timeout=60)
    summed(*arguments)

  def report(text):
    told.append(text)
    go_on.set()

  monkeypatch.setattr(checksums, "write_share", write_share)
  checkpoints = Checkpoints(tmp_path, report=report)
  first = checkpoints.save(1, state(1), {})
  assert not go_on.is_set()
  second = checkpoints.save(2, state(2), {})
  assert told == ["checkpoint 1 is still being written; training waits for it"]
  checkpoints.close()
  assert checksums.verify(tmp_path / "1") and checksums.verify(tmp_path / "2")
  stalls = checkpoints.stalls
  assert (stalls.saves, stalls.total) == (2, first + second)
  assert stalls.longest == max(first, second) > 0


def test_a_save_longer_than_the_notice_is_told_once(opened, told):
  checkpoints = opened(grace_seconds=1e-9)
  checkpoints.finish(1, state(1), {})
  checkpoints.finish(2, state(2), {})
  (sentence,) = told
  # A busy machine takes a second.
  assert re.match(
    r"checkpoint 1 was complete after \d+ s: longer than", sentence
  )
  assert "(Checkpointing.grace_seconds)" in sentence


class TestShares:
  """Of files that four processes wrote."""

  @pytest.fixture
  def step(self, tmp_path):
    for i, size in enumerate([5000, 4000, 3000, 2000]):
      folder = tmp_path / "state" / f"ocdbt.process_{i}" / "d"
      folder.mkdir(parents=True)
      (folder / "numbers").write_bytes(bytes(size))
    (tmp_path / "state" / "manifest.ocdbt").write_bytes(b"manifest")
    return tmp_path

  def test_all_are_summed_and_each_is_verified_by_one(self, step, monkeypatch):
    for process in range(4):
      assert not checksums.verify(step)
      checksums.write_share(step, process, 4)
    assert checksums.verify(step)
    for path in [*(step / "state").glob("*/d/numbers"), *step.glob("state/m*")]:
      content = path.read_bytes()
      path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
      with pytest.raises(ValueError, match=f"{path.name} has changed"):
        checksums.verify(step)
      path.write_bytes(content)
    read = []
    monkeypatch.setattr(
      checksums, "_checksum", lambda path: read.append(path) or 0
    )
    for process in range(3):
      with pytest.raises(ValueError, match="has changed since it was written"):
        checksums.verify_share(step, process, 3)
    assert sorted(p.stat().length for p in read) == [8, 2000, 3000, 4000, 5000]

  def test_fewer_processes_sum_what_more_have_written(self, step):
    for process in range(2):
      checksums.write_share(step, process, 2)
    assert checksums.verify(step)

  def test_damage_in_another_share_is_not_looked_for(self, step):
    for process in range(4):
      checksums.write_share(step, process, 4)
    path = step / "state" / "ocdbt.process_3" / "d" / "numbers"
    path.write_bytes(b"\1" + bytes(1999))
    found = []
    for process in range(2):
      try:
        assert checksums.verify_share(step, process, 2)
      except ValueError as error:
        found.append(str(error))
    assert found == [
      "state/ocdbt.process_3/d/numbers has changed since it was written"
    ]
