"""Unlabelled text: file kinds, bad files, and the examples that come out."""

import gzip
import json

import numpy as np
import pytest
import sentencepiece
import seqio

from tasks.corpora import unlabelled_text
from tasks.sources.text_files import TextFilesDataSource
from tests.tasks import arrow_tables
from tests.tasks.arrow_tables import to_arrow
from tests.tasks.arrow_tables import to_parquet
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError


def _texts(source, split="train", **kwargs):
  dataset = source.get_dataset(split, **({"shuffle": False} | kwargs))
  return [example["text"].decode() for example in dataset.as_numpy_iterator()]


def _json_lines(*texts):
  return "".join(json.dumps({"text": text}) + "\n" for text in texts)


@pytest.fixture
def files(tmp_path):
  """Three files of two kinds, one of them compressed."""
  (tmp_path / "b.jsonl").write_text(_json_lines("three", "four ü"), "utf-8")
  with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding="utf-8") as file:
    file.write(_json_lines("one\n\ntwo"))
  (tmp_path / "c.txt").write_text("five\n\n six \n", "utf-8")
  return tmp_path


def test_glob_gzip_and_both_kinds(files):
  source = TextFilesDataSource(
    {
      "train": str(files / "*"),
      "validation": str(files / "c.txt"),
    }
  )
  assert _texts(source) == ["one\n\ntwo", "three", "four ü", "five", "six"]
  assert _texts(source, "validation") == ["five", "six"]
  assert [path[-1] for path in source.list_shards("train")] == list("zlt")


def test_columns_and_saved_folders_are_documents_too(tmp_path):
  """A large document is read whole, and a file of a split is one shard."""
  text = "word " * 1_000_000 + "end"
  (tmp_path / "a.parquet").write_bytes(to_parquet({"text": [text, "two"]}))
  (tmp_path / "b.arrow").write_bytes(to_arrow({"text": ["three"], "id": [1]}))
  arrow_tables.save_split(tmp_path / "c", {"text": ["4"]}, {"text": ["5", "6"]})
  source = TextFilesDataSource({"train": str(tmp_path / "*")})
  assert _texts(source) == [text, "two", "three", "4", "5", "6"]
  shards = source.list_shards("train")
  assert len(shards) == 4
  assert list(source.documents(shards[3], None)) == ["5", "6"]


def test_shards_share_out_the_files(files):
  source = TextFilesDataSource({"train": str(files / "*")})
  shards = [
    _texts(source, shard_info=seqio.ShardInfo(index, 2)) for index in (0, 1)
  ]
  assert shards == [["one\n\ntwo", "five", "six"], ["three", "four ü"]]


@pytest.mark.slow
def test_shuffling_is_seeded_and_loses_nothing(files):
  source = TextFilesDataSource({"train": str(files / "*")})
  orders = [_texts(source, shuffle=True, seed=seed) for seed in range(4)]
  assert orders == [_texts(source, shuffle=True, seed=s) for s in range(4)]
  plain = sorted(_texts(source))
  assert all(sorted(order) == plain for order in orders)
  assert len(set(map(tuple, orders))) > 1


def test_data_folders_take_precedence_in_order(files, tmp_path, monkeypatch):
  empty = tmp_path / "empty"
  empty.mkdir()
  monkeypatch.setenv("ZOO_DATA_DIR", f"{empty}:{files}")
  assert _texts(TextFilesDataSource({"train": "c.txt"})) == ["five", "six"]
  (empty / "c.txt").write_text("seven")
  assert _texts(TextFilesDataSource({"train": "c.txt"})) == ["seven"]


def test_another_field_and_fingerprint(tmp_path):
  path = tmp_path / "a.jsonl"
  path.write_text('{"text": "no", "content": "yes"}\n')
  text = TextFilesDataSource({"train": str(path)})
  content = TextFilesDataSource({"train": str(path)}, text_key="content")
  assert _texts(content) == ["yes"]
  assert content.fingerprint() != text.fingerprint()
  before = text.fingerprint()
  path.write_text('{"text": "nothing"}\n')
  assert text.fingerprint() != before


def test_the_spelling_of_a_data_folder_is_no_change(files, monkeypatch):
  link = files / "link"
  link.symlink_to(files)
  monkeypatch.chdir(files.parent)
  found = set()
  for spelling in (files, f"{files}/", files.name, f"./{files.name}", link):
    monkeypatch.setenv("ZOO_DATA_DIR", str(spelling))
    found.add(TextFilesDataSource({"train": "c.txt"}).fingerprint())
  assert len(found) == 1


def test_paragraphs_are_documents(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("\n one\ntwo \n \t\n\n\nthree\n\n")
  for kind, expected in (
    ("paragraphs", ["one\ntwo", "three"]),
    ("lines", ["one", "two", "three"]),
  ):
    source = TextFilesDataSource({"train": str(path)}, documents=kind)
    assert _texts(source) == expected
    assert list(source.documents(str(path), None)) == expected


def test_a_bad_paragraph_is_named_by_its_lines(tmp_path):
  path = tmp_path / "a.txt"
  path.write_bytes(b"one\n\ntwo\nthr\0ee\nfour\n\nfive")
  source = TextFilesDataSource({"train": str(path)}, documents="paragraphs")
  with pytest.raises(
    UserError,
    match=f"The row in lines 3 to 5 of the data file '{path}' has a NUL char",
  ):
    list(source.documents(str(path), None))


def test_other_kinds_of_documents_are_refused():
  with pytest.raises(
    UserError, match="documents is 'pages'; write 'lines' where each line"
  ):
    TextFilesDataSource({"train": "x"}, documents="pages")


def test_bad_rows_are_passed_over_where_that_is_asked(tmp_path, monkeypatch):
  path = tmp_path / "a.jsonl"
  path.write_text('{"text": "a"}\n{"txt": "b"}\n{"text": "c"}\n')
  source = TextFilesDataSource({"train": str(path)})
  with pytest.raises(
    UserError, match="Line 2 .* has no string 'text'; correct"
  ):
    list(source.documents(str(path), None))
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  skipped = []
  assert list(source.documents(str(path), skipped.append)) == ["a", "c"]
  assert skipped == [f"Line 2 of the data file '{path}' has no string 'text'."]
  assert source.skipped_rows("train") == skipped


def test_a_document_may_have_five_megabytes(tmp_path):
  text = "word " * 1_000_000 + "end"
  path = tmp_path / "a.jsonl"
  path.write_text(_json_lines(text, "short"))
  source = TextFilesDataSource({"train": str(path)})
  assert list(source.documents(str(path), None)) == [text, "short"]


@pytest.mark.parametrize(
  "name, content, message",
  [
    ("a.jsonl", b"", "'{}' is empty: it has no document"),
    ("a.txt", b"\n \n", "'{}' is empty"),
    ("a.jsonl.gz", gzip.compress(b"", mtime=0), "'{}' is empty"),
    ("a.jsonl.gz", b"no gzip", r"'{}' is unreadable or damaged \(Not a gzip"),
    (
      "a.jsonl.gz",
      gzip.compress(_json_lines("a" * 999, "b").encode(), mtime=0)[:-9],
      "'{}' is unreadable or damaged",
    ),
    (
      "a.txt",
      b"fine\n\xff\xfe\n",
      "Line 2 of the data file '{}' has the byte 0xff, which is not UTF-8",
    ),
    ("a.txt", "fine".encode("utf-16"), "'{}' is not UTF-8 but UTF-16"),
    ("a.txt", b"fi\0ne\n", "Line 1 .* '{}' has a NUL character"),
    (
      "a.jsonl",
      b'{"text": "\xe4"}\n',
      "Line 1 .* '{}' has the byte 0xe4, which is not UTF-8, in 'text'",
    ),
    ("a.jsonl", b'{"text": ""}\n', "Line 1 .* '{}' has an empty text in 'te"),
    (
      "a.jsonl",
      b'{"text": "a"}\n{"text',
      "Line 2 of the data file '{}' is not",
    ),
    ("a.jsonl", b'{"txt": "a"}\n', "Line 1 .* '{}' has no string 'text'"),
    ("a.jsonl", b'{"text": 1}\n', "Line 1 .* '{}' has no string 'text'"),
    ("a.jsonl", b"[1]\n", "Line 1 .* '{}' has no string 'text'"),
    (
      "a.parquet",
      to_parquet({"text": ["a", None]}, row_group_size=1),
      "Row 2 of the data file '{}' has no string 'text'; correct it, or skip",
    ),
    ("a.parquet", to_parquet({"text": [" "]}), "Row 1 .* has an empty text in"),
    ("a.arrow", to_arrow({"text": [1]}), "Row 1 .* '{}' has no string 'text'"),
    (
      "a.arrow",
      to_arrow({"text": ["a", "b\0"]}),
      "Row 2 .* '{}' has a NUL character, in 'text'",
    ),
    (
      "a.parquet",
      to_parquet({"content": ["a"]}),
      "The data file '{}' has no column 'text'; did you mean 'content'",
    ),
    (
      "a.arrow",
      to_arrow({"text": ["a"]})[:-99],
      "'{}' cannot be read as Arrow",
    ),
  ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
  (tmp_path / "0.txt").write_text("a good file")
  path = tmp_path / name
  path.write_bytes(content)
  source = TextFilesDataSource({"train": str(tmp_path / "*")})
  with pytest.raises(UserError, match=message.format(path)):
    source.get_dataset("train")


def test_a_damaged_middle_is_found(tmp_path):
  packed = bytearray(
    gzip.compress(_json_lines(*map(str, range(9999))).encode())
  )
  packed[len(packed) // 2] ^= 0xFF
  path = tmp_path / "a.jsonl.gz"
  path.write_bytes(packed)
  with pytest.raises(UserError, match=str(path)):
    TextFilesDataSource({"train": str(path)}).get_dataset("train")


def test_unreadable_file_is_named(tmp_path):
  (tmp_path / "a.txt").mkdir()
  source = TextFilesDataSource({"train": str(tmp_path / "*.txt")})
  with pytest.raises(UserError, match=r"a.txt' is unreadable .*directory"):
    source.get_dataset("train")


def test_no_match(tmp_path, monkeypatch):
  monkeypatch.delenv("ZOO_DATA_DIR", raising=False)
  source = TextFilesDataSource({"train": "text/none/*.jsonl"})
  message = "No file matches 'text/none/.*'; no data folder is given"
  with pytest.raises(UserError, match=message):
    source.get_dataset("train")
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  with pytest.raises(UserError, match=f"are '{tmp_path}'"):
    source.get_dataset("train")


@pytest.fixture
def features(tmp_path):
  """Inputs and targets in a small vocabulary of their own."""
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=(f"word{i} of {i}" for i in range(400)),
    model_prefix=str(tmp_path / "small"),
    vocab_size=40,
    pad_id=0,
    eos_id=1,
    unk_id=2,
    bos_id=-1,
    minloglevel=2,
  )
  vocabulary = Vocabulary(str(tmp_path / "small.model"), 30).to_seqio()
  return {key: seqio.Feature(vocabulary) for key in ("inputs", "targets")}


def test_registered_task_corrupts_the_text(tmp_path, features):
  name = "unlabelled_text_test_numbers"
  text = " ".join(f"word{i} of {i}" for i in range(400))
  (tmp_path / "a.txt").write_text(text)
  task = unlabelled_text.register_text_task(
    name,
    {"train": str(tmp_path / "a.txt")},
    corruption=SpanCorruption(noise_density=0.5),
    output_features=features,
  )
  try:
    dataset = task.get_dataset(
      {"inputs": 32, "targets": 32}, split="train", shuffle=False
    )
    examples = list(dataset.as_numpy_iterator())
    with pytest.raises(ValueError):
      unlabelled_text.register_text_task(name, {})
  finally:
    seqio.TaskRegistry.remove(name)
  vocabulary = features["targets"].vocabulary
  restored = []
  for example in examples:
    assert example["inputs"][-1] == example["targets"][-1] == 1
    assert len(example["inputs"]) <= 32 and len(example["targets"]) == 32
    spans = {}
    for token in example["targets"][:-1]:
      if token >= 40:
        span = spans.setdefault(token, [])
      else:
        span.append(token)
    for token in example["inputs"][:-1]:
      restored += spans[token] if token >= 40 else [token]
  assert len(examples) > 10
  assert restored == vocabulary.encode(text)[: len(restored)]


@pytest.mark.slow
def test_wikipedia_under_span_corruption(shared_data, monkeypatch):
  monkeypatch.delenv("ZOO_VOCABULARY", raising=False)
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  task = seqio.TaskRegistry.get("wikipedia_text_span_corruption")
  lengths = {"inputs": 512, "targets": 114}

  def examples():
    dataset = task.get_dataset(lengths, split="validation", shuffle=False)
    return list(dataset.take(3).as_numpy_iterator())

  for example, again in zip(examples(), examples(), strict=True):
    for feature in ("inputs", "targets"):
      assert example[feature].dtype == np.int32
      assert len(example[feature]) == lengths[feature]
      assert example[feature][-1] == 1
      sentinels = example[feature][example[feature] >= 32_000]
      assert sentinels.tolist() == list(range(32_099, 32_071, -1))
      np.testing.assert_array_equal(example[feature], again[feature])


@pytest.mark.parametrize(
  "corpus",
  ["wikipedia", "books", "reviews", "newswire", "c4_sample", "wikitext2"],
)
def test_every_corpus_is_there(shared_data, monkeypatch, corpus):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  task = seqio.TaskRegistry.get(f"{corpus}_text_span_corruption")
  for split in task.splits:
    assert task.source.list_shards(split)
