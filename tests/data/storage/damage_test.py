"""Files that are damaged while a run reads them."""

import itertools
import pathlib

import numpy as np
import pytest

from transformer_zoo.data.loader import loader
from transformer_zoo.data.storage.manifest import PreparedMixture
from transformer_zoo.errors import UserError


def start(mixture, **arguments):
  """Begins to read; the files have been checked and are open then."""
  batches = loader.training_batches(
    mixture,
    split="train",
    lengths={"inputs": 32, "targets": 16},
    batch_size=8,
    seed=3,
    packing=False,
    **arguments,
  )
  next(batches)
  return batches


def shard_of(task):
  (shard,) = task.split("train").shards
  return pathlib.Path(task.folder) / shard.name


def overwrite(path, place, content):
  """Changes a file in place, as a fault of the disk would."""
  with open(path, "r+b") as file:
    file.seek(place)
    file.write(content)


def read_on(batches):
  return list(itertools.islice(batches, 2000))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_altered_text_stops_the_run(make_task, stream, num_workers):
  task = make_task("text", stream(200), kind="tokens")
  mixture = PreparedMixture("text", (task,), (1.0,))
  batches = start(mixture, num_workers=num_workers)
  path = shard_of(task)
  overwrite(path, 20_000, b"\xff\xff")
  with pytest.raises(
    UserError,
    match=(
      f"file '{path}' is damaged in the 8192 bytes from byte 16384 on: its "
      "content is not what was written"
    ),
  ):
    read_on(batches)
  batches.close()


def test_cut_text_stops_the_run(make_task, stream):
  task = make_task("text", stream(200), kind="tokens")
  batches = start(PreparedMixture("text", (task,), (1.0,)))
  path = shard_of(task)
  with open(path, "r+b") as file:
    file.truncate(30_000)
  with pytest.raises(UserError, match=f"file '{path}' is damaged in the 8192"):
    read_on(batches)


@pytest.mark.parametrize("change", ["altered", "cut"])
def test_damaged_examples_stop_the_run(make_task, change):
  rng = np.random.default_rng(0)
  examples = [
    {
      name: rng.integers(3, 43, 400).astype(np.int32)
      for name in ("inputs", "targets")
    }
    for _ in range(400)
  ]
  task = make_task("examples", examples)
  path = shard_of(task)
  size = path.stat().st_size
  batches = start(PreparedMixture("examples", (task,), (1.0,)))
  if change == "cut":
    with open(path, "r+b") as file:
      file.truncate(size // 2)
  else:
    overwrite(path, size // 2, bytes(rng.integers(0, 256, 2000, np.uint8)))
  with pytest.raises(UserError, match=f"file '{path}' is damaged"):
    read_on(batches)


def test_missing_shard_is_named(make_task, stream):
  task = make_task("text", stream(30), kind="tokens")
  path = shard_of(task)
  path.unlink()
  with pytest.raises(UserError, match=f"'{path}' cannot be read"):
    start(PreparedMixture("text", (task,), (1.0,)))
