"""C4 in the files of the Hugging Face hub, and corpora that are joined."""

import gzip
import json
import pathlib

import pytest
import seqio

import tasks  # noqa: F401 (registers them)
from transformer_zoo.errors import UserError

FOLDERS = {
  "c4_json_lines_span_corruption": "en",
  "c4_noclean_json_lines_span_corruption": "en.noclean",
  "c4_noblocklist_json_lines_span_corruption": "en.noblocklist",
  "c4_realnewslike_json_lines_span_corruption": "realnewslike",
  "c4_webtextlike_json_lines_span_corruption": "webtextlike",
}


def write(path, *texts):
  path.parent.mkdir(parents=True, exist_ok=True)
  lines = [
    json.dumps({"text": text, "timestamp": "2019-04-25T12:57:54Z", "url": "x"})
    for text in texts
  ]
  path.write_bytes(gzip.compress("\n".join(lines).encode()))


def documents(name, split):
  source = seqio.TaskRegistry.get(name).source
  return [
    text
    for path in source.list_shards(split)
    for text in source.documents(path, None)
  ]


@pytest.mark.parametrize("name", FOLDERS)
def test_every_variant_is_read(tmp_path, monkeypatch, name):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  folder = tmp_path / "c4" / FOLDERS[name]
  for number in (1, 0):
    path = folder / f"c4-train.{number:05d}-of-01024.json.gz"
    write(path, f"{name} {number}\nnext line", "ü")
  write(folder / "c4-validation.00000-of-00008.json.gz", "held out")
  expected = [f"{name} 0\nnext line", "ü", f"{name} 1\nnext line", "ü"]
  assert documents(name, "train") == expected
  assert documents(name, "validation") == ["held out"]


def test_absent_files_are_told(tmp_path, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  with pytest.raises(
    UserError, match=r"No file matches 'c4/en/c4-train\.\*\.json\.gz'; the dat"
  ):
    documents("c4_json_lines_span_corruption", "train")


def test_wikipedia_and_books_are_joined(tmp_path, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  for corpus in ("books", "wikipedia"):
    write(tmp_path / "text" / corpus / "train-0.jsonl.gz", corpus)
  name = "wikipedia_books_text_span_corruption"
  assert documents(name, "train") == ["wikipedia", "books"]
  files = seqio.TaskRegistry.get(name).source.list_shards("train")
  assert [pathlib.Path(file).parent.name for file in files] == [
    "wikipedia",
    "books",
  ]
