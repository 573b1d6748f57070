"""Rows of files: what is read as it is, what is told, what is skipped."""

import gzip
import json

import pytest
import tensorflow as tf

from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from tasks.your_data.templates import RowProblem
from tasks.your_data.templates import Template
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
      r"'{}' has no column 'a'.* \(columns= names those of a file without a he",
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
  ],
)
def test_a_bad_file_is_told_even_where_rows_are_skipped(
  tmp_path, monkeypatch, kind, content, sentence
):
  path = write(tmp_path, content)
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  with pytest.raises(UserError, match=sentence.format(path)):
    source(path, kind).get_dataset("train")


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
