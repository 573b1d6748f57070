"""Checkpoints that Orbax writes to a bucket and reads from there."""

import contextlib

from etils import epath
import jax
import numpy as np
import pytest

from tests import object_stores
from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.state import TrainState

FOLDER = "gs://bucket/run/checkpoints"


@pytest.fixture(autouse=True)
def bucket(monkeypatch):
  object_stores.use_bucket(monkeypatch)
  object_stores.forget()
  yield
  object_stores.forget()


def state(step: int) -> TrainState:
  kernel = np.random.default_rng(step).standard_normal(1000, np.float32)
  params = {"kernel": jax.device_put(kernel)}
  return TrainState(jax.numpy.int32(step), params, ())


def opened(reported=None):
  options = Checkpointing(folder=FOLDER)
  report = (lambda _: None) if reported is None else reported.append
  return contextlib.closing(Checkpoints(FOLDER, options, report, run="a run"))


def save(*steps):
  with opened() as checkpoints:
    for step in steps:
      checkpoints.finish(step, state(step), {"step": step})


def restored_step() -> tuple[int | None, list[str]]:
  abstract = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
    state(0),
  )
  reported = []
  with opened(reported) as checkpoints:
    restored = checkpoints.restore_newest(abstract)
  if restored is None:
    return None, reported
  step = restored[1]["step"]
  jax.tree.map(np.testing.assert_array_equal, restored[0], state(step))
  return step, reported


def names() -> list[str]:
  return sorted(path.name for path in epath.Path(FOLDER).iterdir())


def test_saved_pruned_verified_and_restored():
  save(2, 4, 6)
  assert names() == ["4", "6", "run"]
  assert checksums.verify(epath.Path(FOLDER) / "6")
  assert restored_step() == (6, [])


def test_one_without_its_last_file_is_none():
  save(2, 4)
  (epath.Path(FOLDER) / "4" / "commit_success.txt").unlink()
  assert restored_step() == (2, [])
  assert names() == ["2", "run"]


def test_a_flipped_bit():
  save(2, 4)
  files = object_stores.GoogleStorage
  path = next(p for p in files.store if "/4/state/d/" in p)
  content = files().cat(path)
  files().pipe_file(path, content[:-1] + bytes([content[-1] ^ 1]))
  step, (sentence,) = restored_step()
  assert step == 2
  assert sentence.startswith("checkpoint 4 is damaged (state/d/")
  assert f"put aside as {FOLDER}/4.damaged and the one before" in sentence
  assert names() == ["2", "4.damaged", "run"]


def test_the_folder_of_another_run():
  save(2)
  with pytest.raises(UserError, match="has the checkpoints of the run in 'a "):
    Checkpoints(FOLDER, Checkpointing(folder=FOLDER), run="another run")
