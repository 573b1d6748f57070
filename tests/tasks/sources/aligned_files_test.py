"""Aligned text files: rows in step, faults by file and line."""

import pytest

from tasks.sources.aligned_files import AlignedFilesDataSource
from transformer_zoo.errors import UserError


@pytest.fixture
def write(monkeypatch, tmp_path):
  """Returns a function that writes t.en and t.de in a data folder."""
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  monkeypatch.delenv("ZOO_SKIP_BAD_ROWS", raising=False)

  def files(english: bytes | None, german: bytes | None):
    for name, content in (("t.en", english), ("t.de", german)):
      if content is not None:
        (tmp_path / name).write_bytes(content)
    return AlignedFilesDataSource({"test": "t"}, ("en", "de"))

  return files


def _rows(source):
  dataset = source.get_dataset("test", shuffle=False)
  return [
    (row["en"].decode(), row["de"].decode())
    for row in dataset.as_numpy_iterator()
  ]


def _error(source) -> str:
  with pytest.raises(UserError) as error:
    source.get_dataset("test")
  return str(error.value)


def test_only_a_line_feed_ends_a_line(write):
  # Other characters that Python takes for line ends are text.
  source = write(
    "\ufeffone\u2028still one\r\n two\x0b2 \n".encode(),
    "eins\x85noch eins\nzwei\x1c2".encode(),
  )
  assert _rows(source) == [
    ("one\u2028still one", "eins\x85noch eins"),
    ("two\x0b2", "zwei\x1c2"),
  ]


def test_different_numbers_of_lines(write, tmp_path):
  expected = (
    f"Aligned data files must have as many lines as each other, but "
    f"'{tmp_path}/t.en' has 3 lines and '{tmp_path}/t.de' has 2 lines."
  )
  assert _error(write(b"a\nb\nc\n", b"a\nb\n")) == expected


def test_a_missing_file(write, tmp_path):
  assert _error(write(b"a\n", None)) == (
    f"The data file '{tmp_path}/t.de' is missing, which is aligned with "
    f"'{tmp_path}/t.en'; the data folders (--data_dir) are '{tmp_path}'."
  )


def test_both_files_missing(write):
  assert _error(write(None, None)).startswith("No file matches 't.en'; ")


def test_an_empty_file(write, tmp_path):
  assert _error(write(b"", b"")) == (
    f"The data file '{tmp_path}/t.en' is empty: it has no sentence."
  )


@pytest.mark.parametrize(
  "english, german, where, what",
  [
    (b"a\nb\xff\n", b"a\nb\n", "t.en", "has the byte 0xff, which is not UTF-8"),
    (b"a\nb\n", b"a\n \t\n", "t.de", "is empty"),
    (b"a\n\xc2\xa0\n", b"a\nb\n", "t.en", "is empty"),
    (b"a\nb\0\n", b"a\nb\n", "t.en", "has a NUL character"),
    (
      b"a\n" + b"b" * 1_100_000 + b"\n",
      b"a\nb\n",
      "t.en",
      "has more than 1,048,576 bytes",
    ),
  ],
)
def test_bad_rows(write, tmp_path, monkeypatch, english, german, where, what):
  source = write(english + b"c\n", german + b"c\n")
  sentence = f"Line 2 of the data file '{tmp_path}/{where}' {what}"
  assert _error(source).startswith(sentence)
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  assert _rows(source) == [("a", "a"), ("c", "c")]
  assert source.skipped_rows("test") == [sentence + "."]


def test_every_file_is_part_of_the_fingerprint(write):
  before = write(b"a\n", b"a\n").fingerprint()
  assert write(None, None).fingerprint() == before
  assert write(None, b"ab\n").fingerprint() != before
