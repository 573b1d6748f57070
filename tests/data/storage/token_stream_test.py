"""The stream over shards is the joined documents, and damage has a place."""

import os
import pathlib
import pickle

import numpy as np
import pytest

from transformer_zoo.data.prepare import shards
from transformer_zoo.data.storage import integrity
from transformer_zoo.data.storage import token_stream
from transformer_zoo.data.storage.token_stream import TokenStream
from transformer_zoo.errors import UserError

COUNT = 4


@pytest.fixture
def documents():
  """Five batches of documents of uneven lengths, one of them empty."""
  rng = np.random.default_rng(0)
  lengths = [rng.integers(1, 3000, 6).tolist() for _ in range(5)]
  lengths[2][3] = 0
  return [
    [rng.integers(3, 43, n).astype(np.int32) for n in some] for some in lengths
  ]


@pytest.fixture
def task(make_task, stream, documents):
  """A task whose split 'many' has four shards; the last has two batches."""
  task = make_task("text", stream(3), kind="tokens")
  folder = pathlib.Path(task.folder)
  for index, some in enumerate([*documents[:3], documents[3] + documents[4]]):
    content = shards.Documents(
      np.concatenate(some),
      np.array([len(ids) for ids in some], np.int32),
      np.array([n for ids in some for n in halves(len(ids))], np.int32),
    )
    place = shards.Place("many", index, COUNT)
    shards.write_shard([content], place, task, folder)
  task.splits["many"] = shards.join_shards("many", COUNT, task, folder)
  shards.remove_notes(folder)
  return task


def halves(length):
  return length // 2, length - length // 2


@pytest.fixture
def joined(documents):
  return np.concatenate([ids for some in documents for ids in some])


def shard_file(task, index):
  return os.path.join(task.folder, task.splits["many"].shards[index].name)


def change_byte(path, offset):
  status = os.stat(path)
  with open(path, "r+b") as file:
    file.seek(offset)
    byte = file.read(1)[0]
    file.seek(offset)
    file.write(bytes([byte ^ 1]))
  os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("length", [1, 7, 568, 4096, 4097, 9000, 20_000])
def test_rows_are_those_of_the_joined_documents(task, joined, length):
  stream = TokenStream(task, "many")
  assert stream.num_tokens == len(joined)
  last = len(joined) - length
  starts = np.random.default_rng(1).integers(0, last + 1, 200)
  starts[:2] = 0, last
  rows = stream.read(starts, length)
  assert rows.dtype == np.int32
  expected = joined[starts[:, None] + np.arange(length)]
  np.testing.assert_array_equal(rows, expected)


def test_every_offset_is_reached(task, joined):
  rows = TokenStream(task, "many").read(np.arange(len(joined)), 1)
  np.testing.assert_array_equal(rows[:, 0], joined)


def test_no_rows_and_no_tokens(task):
  stream = TokenStream(task, "many")
  assert stream.read(np.array([], np.int64), 5).shape == (0, 5)
  assert stream.read(np.array([3, 4]), 0).shape == (2, 0)


def test_ends_of_documents_and_sentences(task, documents):
  stream = TokenStream(task, "many")
  lengths = [len(ids) for some in documents for ids in some]
  np.testing.assert_array_equal(stream.document_ends, np.cumsum(lengths))
  sentences = [n for length in lengths for n in halves(length)]
  np.testing.assert_array_equal(stream.sentence_ends, np.cumsum(sentences))
  assert stream.document_ends.dtype == stream.sentence_ends.dtype == np.int64
  assert isinstance(stream.document_ends, np.memmap)
  assert TokenStream(task, "train").sentence_ends is None


@pytest.mark.parametrize("start", [-1, 10**6])
def test_a_row_outside_the_stream_is_refused(task, start):
  with pytest.raises(ValueError, match="are not all in a stream of"):
    TokenStream(task, "many").read(np.array([start]), 5)


def test_a_task_of_examples_has_no_stream(make_task, short_examples):
  task = make_task("few", short_examples(3))
  with pytest.raises(UserError, match="'few' has examples, no stream of unl"):
    TokenStream(task, "train")


def test_another_process_may_have_it(task, joined):
  stream = TokenStream(task, "many")
  stream.read(np.array([0]), 3)
  again = pickle.loads(pickle.dumps(stream))
  np.testing.assert_array_equal(again.read(np.array([5]), 9)[0], joined[5:14])


def test_more_shards_than_files_may_be_open(task, joined, monkeypatch):
  monkeypatch.setattr(token_stream, "_MOST_OPEN", 2)
  stream = TokenStream(task, "many")
  before = len(os.listdir("/proc/self/fd"))
  rows = stream.read(np.arange(0, len(joined) - 9, 1000), 9)
  assert len(os.listdir("/proc/self/fd")) == before + 2
  np.testing.assert_array_equal(rows[:, 0], joined[:-9:1000])
  del stream
  assert len(os.listdir("/proc/self/fd")) <= before


def test_a_missing_shard_is_named(task):
  path = shard_file(task, 2)
  os.remove(path)
  with pytest.raises(UserError) as raised:
    TokenStream(task, "many")
  assert str(raised.value) == (
    f"The prepared file {path!r} cannot be read (No such file or directory); "
    "run `zoo prepare` again."
  )


@pytest.mark.parametrize("large", [False, True])
def test_a_truncated_shard_is_refused_at_start(task, monkeypatch, large):
  if large:
    monkeypatch.setattr(integrity, "LARGEST_CHECKED", 100)
  path = shard_file(task, 1)
  size = os.path.getsize(path)
  os.truncate(path, size - 100)
  with pytest.raises(UserError) as raised:
    TokenStream(task, "many")
  assert str(raised.value) == (
    f"The prepared file {path!r} is damaged from byte {size - 100} on: it has "
    f"{size - 100} bytes, its manifest says {size}; delete it and run `zoo "
    "prepare` again."
  )


def test_an_altered_shard_is_refused_at_start(task):
  path = shard_file(task, 3)
  change_byte(path, 8192 + 5)
  with pytest.raises(UserError) as raised:
    TokenStream(task, "many")
  assert str(raised.value) == (
    f"The prepared file {path!r} is damaged in the 8192 bytes from byte 8192 "
    "on: its content is not what was written; delete it and run `zoo prepare` "
    "again."
  )


def test_an_altered_large_shard_is_refused_when_read(task, joined, monkeypatch):
  monkeypatch.setattr(integrity, "LARGEST_CHECKED", 100)
  stream = TokenStream(task, "many")
  stream.read(np.arange(0, len(joined) - 9, 50), 9)
  path = shard_file(task, 3)
  change_byte(path, 8192 + 5)
  begin = sum(shard.num_tokens for shard in task.splits["many"].shards[:3])
  sound = stream.read(np.array([begin]), 4096)
  np.testing.assert_array_equal(sound[0], joined[begin : begin + 4096])
  for other in (stream, TokenStream(task, "many")):
    with pytest.raises(
      UserError, match=f"{path}' is damaged in the 8192 bytes from byte 8192 on"
    ):
      # No altered id is among these, but they share its block.
      other.read(np.array([begin + 4096 + 100]), 9)


def test_a_shard_that_shrinks_while_it_is_read_is_refused(task, joined):
  stream = TokenStream(task, "many")
  path = shard_file(task, 3)
  os.truncate(path, 10)
  with pytest.raises(UserError, match=f"{path}' is damaged in the 8192 bytes"):
    stream.read(np.array([len(joined) - 9]), 9)


@pytest.mark.parametrize("table", ["checksums", "document_ends"])
def test_a_damaged_table_is_refused(task, table):
  path = os.path.join(task.folder, task.splits["many"].tables[table].name)
  change_byte(path, os.path.getsize(path) - 1)
  with pytest.raises(UserError, match=f"{table}.npy' is damaged: its checksum"):
    TokenStream(task, "many")
