"""Stamps of prepared data: current until anything that was noted changes."""

import os
import shutil

import pytest

from transformer_zoo.data.storage import freshness
from transformer_zoo.data.storage import manifest


@pytest.fixture
def stamped(prepared_dir, tmp_path, monkeypatch):
  """A prepared task with a stamp, and the file of its raw data."""
  folder = shutil.copytree(prepared_dir, tmp_path / "prepared")
  data = tmp_path / "data" / "text"
  data.mkdir(parents=True)
  (data / "rows.txt").write_text("rows")
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path / "data"))
  name = min(path.parent.name for path in folder.glob("*/manifest.json"))
  freshness.save(manifest.load(name, folder), folder, [str(data / "rows.txt")])
  assert freshness.load(name, folder).name == name
  return name, folder, data


def test_without_a_stamp_nothing_is_current(stamped):
  name, folder, _ = stamped
  freshness._path(name, folder).unlink()
  assert freshness.load(name, folder) is None


def test_a_damaged_stamp_counts_as_none(stamped):
  name, folder, _ = stamped
  freshness._path(name, folder).write_text("{")
  assert freshness.load(name, folder) is None


def test_an_edited_file(stamped):
  name, folder, data = stamped
  (data / "rows.txt").write_text("other rows")
  assert freshness.load(name, folder) is None


def test_a_file_that_is_touched(stamped):
  name, folder, data = stamped
  os.utime(data / "rows.txt", (1, 1))
  assert freshness.load(name, folder) is None


@pytest.mark.slow
def test_a_new_file_in_a_data_folder(stamped):
  name, folder, data = stamped
  os.utime(data, (1, 1))  # However coarse the clock of the disk is.
  freshness.save(manifest.load(name, folder), folder, [str(data / "rows.txt")])
  (data / "more.txt").write_text("")
  assert freshness.load(name, folder) is None


def test_another_environment_or_folder(stamped, monkeypatch, tmp_path):
  name, folder, _ = stamped
  with monkeypatch.context() as changed:
    changed.setenv("ZOO_VOCABULARY", "mine")
    assert freshness.load(name, folder) is None
  assert freshness.load(name, folder) is not None
  monkeypatch.chdir(tmp_path)
  assert freshness.load(name, folder) is None


def test_another_version_of_a_library(stamped, monkeypatch):
  name, folder, _ = stamped
  monkeypatch.setattr(freshness, "_version", lambda library: "0")
  assert freshness.load(name, folder) is None


def test_a_module_that_was_edited(stamped, monkeypatch):
  name, folder, _ = stamped
  status = freshness._status
  monkeypatch.setattr(
    freshness,
    "_status",
    lambda path: [0, 0] if path == freshness.__file__ else status(path),
  )
  assert freshness.load(name, folder) is None


@pytest.mark.slow
def test_damaged_records_and_missing_splits(stamped):
  name, folder, _ = stamped
  assert freshness.load(name, folder, ["train"]) is not None
  assert freshness.load(name, folder, ["no_such_split"]) is None
  shard = min((folder / name).glob("train-*"))
  shard.write_bytes(shard.read_bytes()[:-1])
  assert freshness.load(name, folder) is None


@pytest.mark.slow
def test_large_data_folders_get_no_stamp(stamped, monkeypatch):
  name, folder, _ = stamped
  monkeypatch.setattr(freshness, "_MOST_FOLDERS", 0)
  freshness.save(manifest.load(name, folder), folder, [])
  assert not freshness._path(name, folder).exists()
