"""A stamp holds for prepared data until what it depends on changes."""

import os
import pathlib
import shutil

import pytest

from transformer_zoo.data.storage import freshness

ROOT = pathlib.Path(__file__).parents[3]
seqio = pytest.importorskip("seqio")
NAME = "freshness_test_words"


@pytest.fixture
def prepared(tmp_path, monkeypatch):
  """Returns the folder of a prepared task, its vocabulary and its file."""
  from tasks.your_data.text_to_text import TextToTextTask
  from transformer_zoo.data.prepare import preparation

  monkeypatch.chdir(tmp_path)
  (tmp_path / "vocabulary").mkdir()
  vocabulary = tmp_path / "vocabulary" / "own.model"
  shutil.copy(ROOT / "tasks/miniature/vocabulary.model", vocabulary)
  rows = tmp_path / "words.tsv"
  rows.write_text("word\tkind\nfish\tnoun\nsing\tverb\n")
  TextToTextTask.from_tsv(
    NAME,
    splits={"train": str(rows), "validation": str(rows)},
    inputs="word: {word}",
    targets="{kind}",
    metrics=["accuracy"],
    vocabulary=str(vocabulary),
  )
  folder = tmp_path / "prepared"
  preparation.prepare(NAME, prepared_dir=folder)
  yield folder, vocabulary, rows
  seqio.TaskRegistry.remove(NAME)


def touch(path: pathlib.Path) -> None:
  status = path.stat()
  os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def test_unchanged_data_is_current(prepared):
  folder, _, _ = prepared
  mixture = freshness.load(NAME, folder)
  assert [task.name for task in mixture.tasks] == [NAME]


@pytest.mark.parametrize("changed", ["vocabulary", "rows", "beside", "records"])
def test_what_has_changed_is_not_current(prepared, changed):
  folder, vocabulary, rows = prepared
  match changed:
    case "vocabulary":
      touch(vocabulary)
    case "rows":
      touch(rows)
    case "beside":
      (vocabulary.parent / "tokenizer_config.json").write_text("{}")
      touch(vocabulary.parent)
    case "records":
      (records,) = folder.glob(f"{NAME}/train*array_record")
      records.unlink()
  assert freshness.load(NAME, folder) is None


def test_another_environment_is_not_current(prepared, monkeypatch):
  folder, _, _ = prepared
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  assert freshness.load(NAME, folder) is None
