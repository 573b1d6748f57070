"""Examples over several shards, and damage that is found when they are read."""

import os
import pathlib

import numpy as np
import pytest

from transformer_zoo.data.prepare import shards
from transformer_zoo.data.storage import integrity
from transformer_zoo.data.storage.records import ExampleRecords
from transformer_zoo.errors import UserError


@pytest.fixture
def task(make_task, short_examples):
  """A task whose split 'many' has 30 examples in three shards."""
  task = make_task("few", short_examples(3))
  folder = pathlib.Path(task.folder)
  for index in range(3):
    some = short_examples(10, seed=index, first=10 * index)
    shards.write_shard(some, shards.Place("many", index, 3), task, folder)
  task.splits["many"] = shards.join_shards("many", 3, task, folder)
  return task


def middle(task):
  return pathlib.Path(task.folder) / task.splits["many"].shards[1].name


def alter(path):
  content = bytearray(path.read_bytes())
  content[1000] ^= 255  # in a record: Riegeli's own marks are each 65536 bytes
  path.write_bytes(content)


def test_shards_are_one_sequence(task, short_examples):
  examples = ExampleRecords(task, "many")
  assert len(examples) == 30
  read = examples.read(np.array([29, 0, 10, 9]))
  assert [text["idx"] for _, text in read] == [29, 0, 10, 9]
  expected = short_examples(10, seed=2, first=20)[9]
  np.testing.assert_array_equal(read[0][0]["inputs"], expected["inputs"])
  lengths = task.lengths("many")
  assert lengths.shape == (30, 2)
  assert lengths[29].tolist() == [len(ids) for ids in read[0][0].values()]


def test_a_missing_shard_is_named(task):
  middle(task).unlink()
  with pytest.raises(UserError, match=f"{middle(task)}' cannot be read"):
    ExampleRecords(task, "many")


def test_an_altered_shard_is_refused_at_start(task):
  alter(middle(task))
  with pytest.raises(
    UserError, match=f"{middle(task)}' is damaged in the 8192 bytes from byte "
  ):
    ExampleRecords(task, "many")


def test_an_altered_large_shard_is_refused_when_read(task, monkeypatch):
  monkeypatch.setattr(integrity, "LARGEST_CHECKED", 100)
  path = middle(task)
  alter(path)
  examples = ExampleRecords(task, "many")
  assert len(examples.read([0, 9, 20, 29])) == 4
  with pytest.raises(
    UserError,
    match=rf"{path}' is damaged: .*hash mismatch.*at byte \d+; delete",
  ):
    examples.read(range(30))


def test_a_large_shard_that_cannot_be_opened_is_named(task, monkeypatch):
  monkeypatch.setattr(integrity, "LARGEST_CHECKED", 100)
  path = middle(task)
  content = bytearray(path.read_bytes())
  content[65537] ^= 255
  path.write_bytes(content)
  with pytest.raises(
    UserError, match=rf"{path}' is damaged: .*at byte 655\d\d"
  ):
    ExampleRecords(task, "many")


def test_another_file_of_the_same_size_is_refused(task, monkeypatch):
  monkeypatch.setattr(integrity, "LARGEST_CHECKED", 100)
  os.truncate(middle(task), 0)
  os.truncate(middle(task), task.splits["many"].shards[1].num_bytes)
  with pytest.raises(UserError, match="damaged|records, their manifest says"):
    ExampleRecords(task, "many").read(range(30))
