"""Rows of files: what is read as it is, what is told, what is skipped."""

import datetime
import decimal
import gzip
import json

import pyarrow as pa
import pytest
import tensorflow as tf

from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from tasks.your_data.templates import RowProblem
from tasks.your_data.templates import Template
from tests.tasks import arrow_tables
from tests.tasks.arrow_tables import to_arrow
from tests.tasks.arrow_tables import to_parquet
from transformer_zoo.errors import UserError

PAIR = Template("{a}|{b}")


def source(path, kind, template=PAIR, **options):
  def convert(row):
    yield {"text": template.fill(row)}

  return RowsDataSource(
    RowFiles({"train": str(path)}, kind, **options),
    convert,
    signature={"text": tf.TensorSpec((), tf.string)},
    fields=template.fields,
    settings=template.text,
  )


def texts(*arguments, **options):
  dataset = source(*arguments, **options).get_dataset("train", shuffle=False)
  return [example["text"].decode() for example in dataset.as_numpy_iterator()]


def write(tmp_path, content, name="rows"):
  path = tmp_path / name
  path.write_bytes(content.encode() if isinstance(content, str) else content)
  return path


def pairs(a, b, of=None):
  """Columns of a Parquet or Arrow file; those of a type unless it is None."""
  return {"a": pa.array(a, of), "b": pa.array(b, of)}


def not_utf8(*texts):
  """A column of texts that nobody has checked."""
  _, offsets, content = pa.array(texts, pa.binary()).buffers()
  return pa.StringArray.from_buffers(len(texts), offsets, content)


ONE_TWO = pairs(["one", "three"], ["two", "four"])


@pytest.fixture(autouse=True)
def bad_rows_are_told(monkeypatch):
  monkeypatch.delenv("ZOO_SKIP_BAD_ROWS", raising=False)


@pytest.mark.parametrize(
  "kind, content, expected",
  [
    ("tsv", "a\tb\none\ttwo\n", ["one|two"]),
    ("tsv", "b\ta\r\none\ttwo\r\n\r\nx\ty", ["two|one", "y|x"]),
    ("tsv", "\ufeffa\tb\n 1 \t2,5\n", [" 1 |2,5"]),
    # No quoting: what looks like CSV is kept as it is.
    ("tsv", 'a\tb\n"one\ttwo "" three"\n', ['"one|two "" three"']),
    # No line ends but "\n", whatever Python counts among them.
    ("tsv", "a\tb\no\u2028n\x85e\tt\x0bw\ro\n", ["o\u2028n\x85e|t\x0bw\ro"]),
    ("csv", "a,b\none,two\n", ["one|two"]),
    ("csv", '\ufeffa,b\r\n"1\r\n2","x ""y"", z"\r\n', ['1\r\n2|x "y", z']),
    ("csv", '"a","b"\n5" pipe,it\'s\n\n', ["5\" pipe|it's"]),
    ("csv", "a,b,\n1,2,3\n", ["1|2"]),
    ("jsonl", '{"a": "x", "b": "y", "c": [1]}\n\n', ["x|y"]),
    # Numbers as they are written, truth values as JSON writes them.
    ("jsonl", '{"a": 1.50, "b": 1E3}\r\n', ["1.50|1E3"]),
    ("jsonl", '\ufeff{"a": true, "b": -0}', ["true|-0"]),
    ("jsonl", '{"a": "\\u00fc\\ud83d\\ude00", "b": "\\nq"}', ["ü😀|\nq"]),
    ("parquet", to_parquet(ONE_TWO), ["one|two", "three|four"]),
    (
      "parquet",
      to_parquet(ONE_TWO, row_group_size=1),
      ["one|two", "three|four"],
    ),
    ("arrow", to_arrow(ONE_TWO), ["one|two", "three|four"]),
    ("arrow", to_arrow(ONE_TWO, rows=1), ["one|two", "three|four"]),
    ("arrow", to_arrow(ONE_TWO, pa.ipc.new_file), ["one|two", "three|four"]),
    (
      "arrow",
      to_arrow(
        ONE_TWO,
        pa.ipc.new_file,
        options=pa.ipc.IpcWriteOptions(compression="zstd"),
      ),
      ["one|two", "three|four"],
    ),
    # Truth values and 32 bits as people write them, texts that are bytes.
    (
      "parquet",
      to_parquet(pairs([3.8], [1 / 3], pa.float32())),
      ["3.8|0.33333334"],
    ),
    ("arrow", to_arrow(pairs([0.1], [2.0], pa.float16())), ["0.1|2.0"]),
    ("arrow", to_arrow(pairs([3.8, 1e16], [-1, 7])), ["3.8|-1", "1e+16|7"]),
    ("parquet", to_parquet(pairs([True], ["ü😀".encode()])), ["true|ü😀"]),
    (
      "parquet",
      to_parquet(
        pairs([decimal.Decimal("1.50")], [datetime.date(1999, 12, 31)])
      ),
      ["1.50|1999-12-31"],
    ),
    (
      "arrow",
      to_arrow({k: v.dictionary_encode() for k, v in ONE_TWO.items()}),
      ["one|two", "three|four"],
    ),
    # The other columns need not be of a kind that Python has.
    (
      "parquet",
      to_parquet(
        pairs(["x"], ["y"]) | {"c": pa.array([1], pa.timestamp("ns"))}
      ),
      ["x|y"],
    ),
  ],
)
def test_rows_are_read_as_they_are(tmp_path, kind, content, expected):
  path = write(tmp_path, content)
  assert texts(path, kind) == expected


def test_gzip_other_delimiters_and_no_header(tmp_path):
  path = write(tmp_path, gzip.compress(b"one\ttwo\n"), "rows.tsv.gz")
  assert texts(path, "tsv", columns=("b", "a")) == ["two|one"]
  path = write(tmp_path, 'a\tb\n"o\tne"\t"t""wo"\n')
  assert texts(path, "csv", delimiter="\t") == ['o\tne|t"wo']


def test_a_pattern_with_a_bracket_and_the_current_folder(tmp_path, monkeypatch):
  write(tmp_path, "a\tb\n1\t2\n", "rows[1].tsv")
  monkeypatch.delenv("ZOO_DATA_DIR", raising=False)
  monkeypatch.chdir(tmp_path)
  assert texts("rows[1].tsv", "tsv") == ["1|2"]
  assert texts("*.tsv", "tsv") == ["1|2"]


def test_parts_of_a_nested_object(tmp_path):
  row = {"q": {"text": "why?"}, "a.b": "exact", "choices": ["x", {"t": "y"}]}
  path = write(tmp_path, json.dumps(row))
  template = Template("{q.text} {a.b} {choices.0} {choices.1.t}")
  assert texts(path, "jsonl", template) == ["why? exact x y"]


@pytest.mark.parametrize(
  "kind, to_bytes", [("parquet", to_parquet), ("arrow", to_arrow)]
)
def test_parts_of_a_nested_column(tmp_path, kind, to_bytes):
  of_map = pa.map_(pa.string(), pa.float32())
  columns = {
    "unused": [b"\xff"],
    "a.b": ["exact"],
    "a": [{"b": "other"}],
    "q": [{"text": "why?", "scores": [0.5, 3.8]}],
    "choices": pa.array([["x", "y"]], pa.large_list(pa.string())),
    "map": pa.array([[("k", 0.1)]], of_map),
  }
  columns["q"] = pa.array(
    columns["q"],
    pa.struct({"text": pa.string(), "scores": pa.list_(pa.float32(), 2)}),
  )
  path = write(tmp_path, to_bytes(columns))
  template = Template("{q.text} {a.b} {choices.1} {q.scores.1} {map.k}")
  assert texts(path, kind, template) == ["why? exact y 3.8 0.1"]


def test_the_files_of_a_saved_folder_are_shards(tmp_path):
  """Of one split or several; no other files of the folder are read."""
  later = pairs([f"row{i}" for i in range(1001)], ["x"] * 1001)
  arrow_tables.save_split(tmp_path / "one", ONE_TWO, later)
  (tmp_path / "one" / "cache-1234.arrow").write_bytes(b"of no concern")
  found = source(tmp_path / "one", "arrow")
  first, second = found.list_shards("train")
  assert [row["text"] for row in found.read(first)] == ["one|two", "three|four"]
  assert [row["text"] for row in found.read(second)] == [
    f"row{i}|x" for i in range(1001)
  ]
  before = found.fingerprint()
  write(tmp_path, to_arrow(later), first)
  assert found.fingerprint() != before
  arrow_tables.save_splits(tmp_path / "all", train=ONE_TWO, test=later)
  for path in ("all", "all/train"):
    assert texts(tmp_path / path, "arrow") == ["one|two", "three|four"]


@pytest.mark.parametrize(
  "state, sentence",
  [
    ({"_data_files": []}, "'{}/state.json' lists no data files"),
    ({"_data_files": None}, "'{}/state.json' has _data_files=None; it takes a"),
    (
      {"_data_files": [{"filename": "gone.arrow"}]},
      "'{}/gone.arrow' is unreadable or damaged \\(No such file",
    ),
    (
      {"_indices_data_files": [{"filename": "indices.arrow"}]},
      "'{}/state.json' is of an early version of `datasets`, .* save it again",
    ),
  ],
)
def test_a_saved_folder_that_lacks_its_files_is_told(tmp_path, state, sentence):
  arrow_tables.save_split(tmp_path / "saved", ONE_TWO, **state)
  sentence = sentence.format(tmp_path / "saved")
  with pytest.raises(UserError, match=sentence):
    source(tmp_path / "saved", "arrow").get_dataset("train")


def test_a_split_that_was_not_saved_is_told(tmp_path):
  arrow_tables.save_splits(tmp_path / "all", training=ONE_TWO, test=ONE_TWO)
  with pytest.raises(
    UserError,
    match=f"'{tmp_path}/all' has no split 'train'; did you mean 'training'",
  ):
    source(tmp_path / "all", "arrow").get_dataset("train")


LONG = "x" * 1_000_001
# kind, content, the sentence after the file's name or around it.
BAD_ROWS = [
  (
    "tsv",
    "a\tb\n1\n",
    "Line 2 of {} has 1 columns, not the 2 columns 'a', '",
  ),
  ("tsv", "a\tb\n1\t2\t3\n", "Line 2 of {} has 3 columns"),
  ("tsv", "a\tb\n1\t\n", "Line 2 of {} has an empty text in the field 'b'"),
  ("tsv", "a\tb\n \t2\n", "Line 2 of {} has an empty text in the field 'a'"),
  (
    "tsv",
    "a\tb\n1\tx\0\n",
    "Line 2 of {} has a NUL character, in the field",
  ),
  (
    "tsv",
    b"a\tb\n\xe9t\xe9\t2\n",
    "Line 2 of {} has the byte 0xe9, which is not UTF-8, in the field 'a'",
  ),
  ("tsv", f"a\tb\n1\t{LONG}\n", "Line 2 of {} is longer than 1,000,000 bytes"),
  ("csv", "a,b\n1,2,3\n", "Line 2 of {} has 3 columns"),
  ("csv", 'a,b\n"1"x,2\n', "Line 2 of {} is not CSV \\("),
  ("csv", 'a,b\n"1\n"x,2\n', "The row in lines 2 to 3 of {} is not CSV"),
  ("csv", b'a,b\n"1\n\xff",2\n', "lines 2 to 3 of {} has the byte 0xff"),
  ("csv", f"a,b\n{LONG},2\n", "Line 2 of {} is longer than 1,000,000 bytes"),
  ("jsonl", '{"a": "1"}', "Line 1 of {} has no field 'b'; allowed: 'a'"),
  ("jsonl", '{"a": "1", "bb": 2}', "has no field 'b'; did you mean 'bb'"),
  (
    "jsonl",
    '{"a": 1, "b": null}',
    "Line 1 of {} has no value \\(null\\) in",
  ),
  ("jsonl", '{"a": 1, "b": ""}', "Line 1 of {} has an empty text in the fie"),
  ("jsonl", '{"a": 1, "b": [2]}', "has a list in the field 'b' where one"),
  ("jsonl", '{"a": 1, "b": {}}', "has an object in the field 'b' where one"),
  ("jsonl", '{"a": 1, "b": 2', "Line 1 of {} is not JSON \\(Expecting"),
  ("jsonl", '{"a": 1, "b": NaN}', "is not JSON \\(NaN is no number of JSON"),
  ("jsonl", '{"a": 1, "a": 2}', "is not JSON \\(the field 'a' comes twice"),
  ("jsonl", '["a"]', "Line 1 of {} is no JSON object"),
  ("jsonl", '{"a": "\\u0000", "b": 2}', "has a NUL character, in the field 'a"),
  ("jsonl", '{"a": "\\ud800", "b": 2}', "half a surrogate pair \\(U\\+D800\\)"),
  ("jsonl", b'{"a": 1, "b": ["\xff"]}', "the byte 0xff, .* in the field 'b.0'"),
  ("jsonl", f'{{"a": 1, "b": "{LONG}"}}', "Line 1 of {} is longer than"),
]


@pytest.mark.parametrize("kind, content, sentence", BAD_ROWS)
def test_a_bad_row_is_told(tmp_path, kind, content, sentence):
  path = write(tmp_path, content)
  sentence = sentence.format(f"the data file '{path}'")
  with pytest.raises(UserError, match=sentence) as caught:
    source(path, kind).get_dataset("train")
  assert str(caught.value).endswith(
    "; correct it, or skip such rows with --skip_bad_rows."
  )


@pytest.mark.parametrize("kind, content, sentence", BAD_ROWS)
def test_a_bad_row_is_skipped_and_counted(
  tmp_path, monkeypatch, kind, content, sentence
):
  good = {
    "tsv": b"good\trow\n",
    "csv": b"good,row\n",
    "jsonl": b'{"a": "good", "b": "row"}\n',
  }[kind]
  content = content.encode() if isinstance(content, str) else content
  path = write(tmp_path, content.rstrip(b"\n") + b"\n" + good)
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  found, told = source(path, kind), []
  rows = list(found.good_rows(str(path), told.append))
  assert rows == [{"text": "good|row"}]
  (skipped,) = found.skipped_rows("train")
  assert str(path) in skipped and skipped.endswith(".")
  assert told == [skipped]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize(
  "values, sentence",
  [
    (pa.array(["row", None]), "no value \\(null\\) in the field 'b'"),
    (pa.array(["row", " "]), "an empty text in the field 'b'"),
    (pa.array(["row", "x\0"]), "a NUL character, in the field 'b'"),
    (pa.array([1, float("nan")]), "nan, which is no number, in the field 'b'"),
    (pa.array([b"row", b"\xe9"]), "the byte 0xe9, .* UTF-8, in the field 'b'"),
    (not_utf8(b"row", b"x\xe9"), "the byte 0xe9, .* UTF-8, in the field 'b'"),
    (
      pa.array(["row", LONG]),
      "is longer than 1,000,000 bytes, the most a row may have",
    ),
  ],
)
def test_a_bad_row_of_columns_is_told_and_skipped(
  tmp_path, monkeypatch, kind, values, sentence
):
  """The number of the row counts on from batch to batch."""
  columns = {"a": ["good", "bad"], "b": values}
  if kind == "arrow":
    content = to_arrow(columns, rows=1)
  else:
    content = to_parquet(columns, row_group_size=1)
  path = write(tmp_path, content)
  told = f"Row 2 of the data file '{path}' (has )?{sentence}"
  with pytest.raises(UserError, match=told):
    source(path, kind).get_dataset("train")
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  (row,) = texts(path, kind)
  assert row.startswith("good|")
  (skipped,) = source(path, kind).skipped_rows("train")
  assert skipped.startswith(f"Row 2 of the data file '{path}' ")


@pytest.mark.parametrize(
  "kind, content",
  [
    ("tsv", "a\tb\n1\ngood\trow\n"),
    ("csv", "a,b\n1,2,3\ngood,row\n"),
    ("jsonl", '{"a": 1}\n{"a": "good", "b": "row"}\n'),
  ],
)
def test_a_skipped_row_is_no_example(tmp_path, monkeypatch, kind, content):
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  assert texts(write(tmp_path, content), kind) == ["good|row"]


@pytest.mark.parametrize(
  "kind, content, sentence",
  [
    ("tsv", "", "'{}' is empty: it has no row"),
    ("tsv", "a\tb\n", "'{}' is empty: it has no row"),
    ("csv", "\n\n", "'{}' is empty: it has no row"),
    ("jsonl", " \n", "'{}' is empty: it has no row"),
    ("tsv", "a\ta\tb\n1\t2\t3\n", "Line 1 .* '{}' names the column 'a' twice"),
    (
      "tsv",
      "a\tbb\n1\t2\n",
      "Line 1 of the data file '{}' has no column 'b'; did you mean 'bb'",
    ),
    ("csv", 'a,b\n"1,2\n3,4\n', "lines 2 to 3 .* quote that is never closed"),
    (
      "tsv",
      "1\t2\n3\t4\n",
      r"'{}' has no column 'a'.* \(columns= names the columns of a file wit",
    ),
    (
      "tsv",
      gzip.compress(b"a\tb\n", mtime=0),
      "Line 1 .* has a NUL character, in the fi",
    ),
    ("tsv", "a\tb\n1\t2\n".encode("utf-16"), "'{}' is not UTF-8 but UTF-16"),
    ("tsv", b"a\tb\r1\t2\r", "'{}' has the line ends of old Macs"),
    ("csv", b"a,b\r1,2", "'{}' has the line ends of old Macs"),
    ("jsonl", b'{"a": 1}\r{"a": 2}\r', "'{}' has the line ends of old Macs"),
    ("tsv", LONG, "Line 1 .* is longer .* It should name the columns."),
    *(
      (kind, content, sentence)
      for kind, whole in (
        ("parquet", to_parquet(ONE_TWO)),
        ("arrow", to_arrow(ONE_TWO)),
        ("arrow", to_arrow(ONE_TWO, pa.ipc.new_file)),
      )
      for content, sentence in (
        (b"", f"'{{}}' cannot be read as {kind.title()} \\("),
        (b"a\tb\n1\t2\n" * 9, f"'{{}}' cannot be read as {kind.title()} \\("),
        (whole[:20], f"cannot be read as {kind.title()} \\(.*that it is whole"),
        (whole[:-9], f"cannot be read as {kind.title()} \\(.*that it is whole"),
      )
    ),
    # Cut between its batches, where a reader sees nothing but an end.
    (
      "arrow",
      to_arrow(ONE_TWO)[:-8],
      "'{}' cannot be read as Arrow \\(the mark of its end is missing\\)",
    ),
    ("parquet", to_arrow(ONE_TWO), "cannot be read as Parquet"),
    ("arrow", to_parquet(ONE_TWO), "cannot be read as Arrow"),
    (
      "parquet",
      to_parquet(pairs([], [], pa.string())),
      "is empty: it has no row",
    ),
    ("arrow", to_arrow(pairs([], [], pa.string())), "is empty: it has no row"),
    (
      "parquet",
      to_parquet({"a": ["1"], "bb": ["2"]}),
      "The data file '{}' has no column 'b'; did you mean 'bb'",
    ),
    ("arrow", to_arrow({"b": ["1"]}), "'{}' has no column 'a'; allowed: 'b'"),
    (
      "arrow",
      to_arrow(pa.table([["1"], ["2"], ["3"]], names=["a", "b", "a"])),
      "The data file '{}' names the column 'a' twice",
    ),
    (
      "parquet",
      to_parquet({"a": ["x"], "b": pa.array([10**7], pa.date32())}),
      "'{}' cannot be read as Parquet \\(date value out of range",
    ),
  ],
)
def test_a_bad_file_is_told_even_where_rows_are_skipped(
  tmp_path, monkeypatch, kind, content, sentence
):
  path = write(tmp_path, content)
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  with pytest.raises(UserError, match=sentence.format(path)):
    source(path, kind).get_dataset("train")


def test_offsets_out_of_place_are_told_and_end_nothing(tmp_path):
  """Values that pyarrow would read from anywhere in the memory."""
  texts_of_a = pa.array(["one", "two", "three"])
  _, offsets, content = texts_of_a.buffers()
  wrong = pa.array([0, 2**30, 6, 11], pa.int32()).buffers()[1]
  assert wrong.size <= offsets.size
  column = pa.StringArray.from_buffers(3, wrong, content)
  path = write(tmp_path, to_arrow({"a": column, "b": texts_of_a}))
  with pytest.raises(UserError, match="cannot be read as Arrow .*[Oo]ffset"):
    source(path, "arrow").get_dataset("train")


def test_a_damaged_gzip_file_is_told(tmp_path, monkeypatch):
  packed = gzip.compress(b"a\tb\n" + b"1\t2\n" * 9999)
  path = write(tmp_path, packed[:-9], "rows.gz")
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  with pytest.raises(UserError, match=f"'{path}' is unreadable or damaged"):
    source(path, "tsv").get_dataset("train")


def test_a_quote_that_swallows_rows_is_told(tmp_path, monkeypatch):
  path = write(tmp_path, 'a,b\n"1,2\n' + "3,4\n" * 40)
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  with pytest.raises(UserError, match="Line 2 .* more than 100 bytes"):
    source(path, "csv", max_row_bytes=100).get_dataset("train")


def test_a_repeated_header_is_told(tmp_path):
  path = write(tmp_path, "a\tb\n1\t2\n")
  with pytest.raises(UserError, match="Line 1 .* repeats the names in columns"):
    source(path, "tsv", columns=("a", "b")).get_dataset("train")


def test_nothing_but_bad_rows_is_told(tmp_path, monkeypatch):
  path = write(tmp_path, "a\tb\n1\n2\n")
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  with pytest.raises(UserError) as caught:
    source(path, "tsv").get_dataset("train")
  assert str(caught.value).startswith(
    f"The data file '{path}' has no row that can be used; the first of 2 "
    "skipped: Line 2 of the data file"
  )


def test_the_limit_of_a_row_is_the_users(tmp_path):
  path = write(tmp_path, f"a\tb\n1\t{'x' * 30}\n")
  assert texts(path, "tsv", max_row_bytes=33) == ["1|" + "x" * 30]
  with pytest.raises(UserError, match="longer than 32 bytes"):
    texts(path, "tsv", max_row_bytes=32)


def test_the_fingerprint_tells_files_settings_and_switch(tmp_path, monkeypatch):
  path = write(tmp_path, "a\tb\n1\t2\n")
  seen = {
    source(path, "tsv").fingerprint(),
    source(path, "csv").fingerprint(),
    source(path, "tsv", Template("{a}")).fingerprint(),
    source(path, "tsv", max_row_bytes=9).fingerprint(),
  }
  write(tmp_path, "a\tb\n1\t23\n")
  seen.add(source(path, "tsv").fingerprint())
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  seen.add(source(path, "tsv").fingerprint())
  assert len(seen) == 6
  assert source(path, "tsv").fingerprint() in seen


def test_impossible_arguments():
  with pytest.raises(UserError, match="of no kind 'tvs'; did you mean 'tsv'"):
    RowFiles({}, "tvs")
  for splits in ("train.tsv", {"train": ["a.tsv"]}, {"train": None}):
    with pytest.raises(UserError, match="^splits=.* is no file or pattern per"):
      RowFiles(splits, "tsv")
  with pytest.raises(UserError, match="columns= names the column 'a' twice"):
    RowFiles({}, "tsv", ("a", "a"))
  with pytest.raises(UserError, match="delimiter='::' cannot separate columns"):
    RowFiles({}, "csv", delimiter="::")


@pytest.mark.parametrize("text", ["{", "a } b", "{}", "{a", "{{a}"])
def test_a_brace_too_many_is_told(text):
  with pytest.raises(UserError, match="a field is written {name}, a brace {{"):
    Template(text)


def test_templates():
  template = Template("{{x}} {a b:c} {a!r} {a b:c}")
  assert template.fields == ("a b:c", "a!r")
  assert template.fill({"a b:c": "{d}", "a!r": 3}) == "{x} {d} 3 {d}"
  with pytest.raises(RowProblem, match="has an empty text in the field 'a!r'"):
    template.fill({"a b:c": 1, "a!r": ""})
  assert Template("{a}.").fill({"a": None}, ["a"]) == "."
  with pytest.raises(UserError, match="The inputs None is no text"):
    Template(None, "inputs")
