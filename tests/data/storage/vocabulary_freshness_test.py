"""A stamp holds for prepared data until a file of its vocabulary changes."""

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
  """Returns the folder of a prepared task and its vocabulary."""
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
  yield folder, vocabulary
  seqio.TaskRegistry.remove(NAME)


def touch(path: pathlib.Path) -> None:
  status = path.stat()
  os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


@pytest.mark.parametrize("changed", ["the model", "a file beside it"])
def test_a_changed_vocabulary(prepared, changed):
  folder, vocabulary = prepared
  assert freshness.load(NAME, folder)
  if changed == "the model":
    touch(vocabulary)
  else:
    (vocabulary.parent / "tokenizer_config.json").write_text("{}")
    touch(vocabulary.parent)
  assert freshness.load(NAME, folder) is None
