"""Pages out of WET files and JSON Lines, and what is told of bad ones."""

import gzip
import io
import json
import random

import pytest

from transformer_zoo.cleaning import reading
from transformer_zoo.errors import UserError

PAGES = [
  {"text": "Eine Seite.\n\nWARC-Type is told here.\n", "url": "http://a.org/1"},
  {"text": "Añother page.", "url": "http://a.org/2"},
]


def record(kind, content, **headers):
  lines = ["WARC/1.0", f"WARC-Type: {kind}"]
  lines += [f"{key}: {value}" for key, value in headers.items()]
  lines.append(f"Content-Length: {len(content)}")
  return "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n\r\n"


def wet_records():
  date = {"WARC-Date": "2019-04-18T10:00:00Z"}
  yield record("warcinfo", b"Software-Info: a crawler\r\n", **date)
  for page in PAGES:
    address = {"WARC-Target-URI": page["url"]}
    yield record("conversion", page["text"].encode(), **address, **date)


def read(content, **keywords):
  return list(reading.read_pages(io.BytesIO(content), "file", **keywords))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_wet(pack):
  # Common Crawl packs every record by itself.
  content = b"".join(map(pack, wet_records()))
  expected = [{**page, "timestamp": "2019-04-18T10:00:00Z"} for page in PAGES]
  assert read(content) == expected


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_json_lines(pack):
  rows = [*PAGES, {"text": "x", "title": "others stay", "timestamp": None}]
  lines = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
  assert read(pack(b"\xef\xbb\xbf" + lines.encode())) == rows


def test_an_empty_file_has_no_pages():
  assert read(b"") == [] and read(gzip.compress(b"")) == []


BAD_LINES = [
  (b'{"txt": "a"}', "has no 'text' that is a string"),
  (b'{"text": 1}', "has no 'text' that is a string"),
  (b'["text"]', "is not a JSON object"),
  (b'{"text": "a"', "is not JSON"),
  (b'{"text": "a\xff"}', "is not UTF-8 .byte 12."),
  (b'{"text": "a", "url": 3}', "has a 'url' that is not a string"),
  (b'{"text": "a", "timestamp": 3}', "has a 'timestamp' that is not a string"),
  (b'{"text": "a\\u0000b"}', "has a NUL character"),
  (b'{"text": "a\\ud800b"}', "has half a surrogate pair"),
]


@pytest.mark.parametrize("line, message", BAD_LINES)
def test_a_bad_line_is_told(line, message):
  content = b'{"text": "good"}\n' + line + b'\n{"text": "also good"}\n'
  with pytest.raises(UserError, match=f"Line 2 of 'file' {message}"):
    read(content)
  told = []
  assert len(read(content, on_bad=told.append)) == 2 and len(told) == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_page_of_gigabytes_takes_no_memory(pack, monkeypatch):
  """A line and a record that are longer than a page are passed over."""
  monkeypatch.setattr(reading, "_LONGEST", 100)
  monkeypatch.setattr(reading, "_PIECE", 7)
  good = json.dumps(PAGES[0]).encode()
  long = json.dumps({"text": "a" * 100}).encode()
  first, *others = wet_records()
  for content, number in (
    (b"\n".join([good, long, good]), "Line 2"),
    (b"\n".join([long, good, good]), "Line 1"),
    (
      b"".join([first, record("conversion", b"a" * 101), *others]),
      "Record 2",
    ),
  ):
    told = []
    assert len(read(pack(content), on_bad=told.append)) == 2
    (sentence,) = told
    assert sentence.startswith(f"{number} of 'file' is longer than ")


def test_a_header_of_gigabytes_is_passed_over(monkeypatch):
  monkeypatch.setattr(reading, "_LONGEST", 100)
  headers = {"WARC-Note": "a" * 101, "WARC-Target-URI": PAGES[1]["url"]}
  content = record("conversion", PAGES[1]["text"].encode(), **headers)
  assert read(content) == [{**PAGES[1], "timestamp": ""}]


def cut_short(content):
  return content[: len(content) // 2]


def altered(content):
  middle = len(content) // 2
  return content[:middle] + b"\0\0\0\0\0\0" + content[middle + 6 :]


@pytest.mark.parametrize("damage", [cut_short, altered])
def test_damaged_gzip_is_told(damage):
  digits = random.Random(0)
  rows = [json.dumps({"text": str(digits.random())}) for _ in range(3000)]
  content = damage(gzip.compress("\n".join(rows).encode(), mtime=0))
  # What is altered may show as nonsense before the checksum does.
  message = "'file' (is damaged or cut|is not JSON|has no 'text')"
  with pytest.raises(UserError, match=message):
    read(content)
  told = []
  assert len(read(content, on_bad=told.append)) < 3000
  assert "'file' is damaged or cut short" in told[-1]


@pytest.mark.parametrize(
  "content, message",
  [
    (
      b"".join(wet_records())[:-20],
      "Record 3 of 'file' has the Content-Length 14, and the file ends before",
    ),
    *(
      (
        f"WARC/1.0\r\nContent-Length: {length}\r\n\r\nabc".encode(),
        f"Record 1 of 'file' has the Content-Length {sentence}",
      )
      for length, sentence in (
        ("", "'', which is no number"),
        ("²", "'²', which is no number"),
        ("-1", "'-1', which is no number"),
        ("9" * 15, "999999999999999, and the file ends before"),
        ("9" * 5000, "9+, and the file ends before"),
      )
    ),
    (
      b"".join(wet_records()) + b"more",
      "Record 4 of 'file' begins with someth",
    ),
    (
      record("conversion", b"\xff", **{"WARC-Target-URI": "u"}),
      "The record of 'u' in 'file' is not UTF-8 .byte 1.",
    ),
  ],
)
def test_a_bad_wet_file_is_told(content, message):
  with pytest.raises(UserError, match=message):
    read(content)
