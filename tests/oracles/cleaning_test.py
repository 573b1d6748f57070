"""Our cleaning beside that of tensorflow_datasets (`text/c4_utils.py`).

Both split sentences with sentencex: Punkt, which TFDS takes, is a download.
What differs on purpose is listed in `test_where_we_differ`.
"""

import collections
import gzip
import json
import random

import pytest

from transformer_zoo.cleaning import addresses
from transformer_zoo.cleaning import reading
from transformer_zoo.cleaning.duplicates import DuplicateSpans
from transformer_zoo.cleaning.rules import BadWords
from transformer_zoo.cleaning.rules import LINES
from transformer_zoo.cleaning.rules import PAGES
from transformer_zoo.cleaning.rules import Rules
from transformer_zoo.cleaning.rules import Sentencex
from transformer_zoo.cleaning.rules import UNMARKED
from transformer_zoo.cleaning.run import clean

c4_utils = pytest.importorskip("tensorflow_datasets.text.c4_utils")
beam = pytest.importorskip("apache_beam")

MOST_CHARACTERS = 190_000
TFDS = Rules(
  whole_page=False, max_word_length=1000, max_page_length=MOST_CHARACTERS
)
# Their name of a counter -> ours.
RULES = {
  "line-filtered:too_long_word": (LINES, "long_word"),
  "line-filtered:too_short": (LINES, "few_words"),
  "line-filtered:javascript": (LINES, "javascript"),
  "line-filtered:policy": (LINES, "policy"),
  "filtered:loremipsum": (PAGES, "lorem_ipsum"),
  "filtered:squigglybracket": (PAGES, "curly_bracket"),
  "filtered:too_few_sentences": (PAGES, "few_sentences"),
}
DIRTY = [
  "Please enable JavaScript to see all of this page.",
  "By reading on you accept our Terms of Use.",
  "We use cookies so that this works well.",
  "Home | About us | Contact",
  "And then it went on and on...",
  "Read more here.",
  "It was first seen in 1990.[12]",
  "It was[citation needed] first seen there by chance.",
  "He said that it was so, and left us.\x85And she stayed there. \t",
  "A word of " + "a" * 1001 + " letters stands in this line.",
  'They asked him: "Is it so, or is it not?"',
  "A “quoted” ending is not always seen as “one.”",
  "",
  "   ",
]
SPOILING = [
  "Lorem ipsum dolor sit amet, consectetur adipiscing elit.",
  "They write f(x) { return x; } in such places.",
  "Enable javascript { for all of this page here.",
  "Our terms of use { are told in this line.",
  "Lorem ipsum and javascript stand in this very line.",
  "lorem ipsum",
  "if (a) {",
]


@pytest.fixture(autouse=True)
def one_splitter(monkeypatch):
  monkeypatch.setattr(c4_utils, "_get_sentences", Sentencex())


def theirs(text):
  """Returns the text and the counts of TFDS."""
  if not c4_utils.is_valid_length(c4_utils.PageFeatures(text=text)):
    return None, {(PAGES, "too_long"): 1}
  counts = collections.Counter()
  pages = list(
    c4_utils.get_clean_page_fn()(
      page=c4_utils.PageFeatures(text=text),
      counter_inc_fn=lambda name, number=1: counts.update({name: number}),
    )
  )
  named = {RULES[name]: n for name, n in counts.items() if name in RULES}
  return (pages[0].text if pages else None), named


def ours(text):
  """Returns our text and counts, without those of lines that end nothing."""
  cleaned, counts = TFDS.clean(text)
  left_out = {(LINES, "blank"), (LINES, "no_end_mark"), UNMARKED}
  return cleaned, {k: n for k, n in counts.items() if k not in left_out}


def texts(path):
  with gzip.open(path, "rt", encoding="utf-8") as file:
    return [json.loads(line)["text"] for line in file]


@pytest.mark.parametrize(
  "file",
  [
    *("c4_sample/train", "c4_sample/validation", "wikipedia/validation"),
    *("newswire/validation", "reviews/validation", "books/validation"),
  ],
)
def test_real_pages(file, shared_data):
  pages = texts(shared_data / "text" / f"{file}.jsonl.gz")
  assert len(pages) > 10
  for text in pages:
    assert ours(text) == theirs(text)


def test_real_pages_made_dirty(shared_data):
  draw = random.Random(0)
  kept = 0
  for text in texts(shared_data / "text/c4_sample/validation.jsonl.gz") * 5:
    lines = text.split("\n")[:6]
    lines += draw.choices(DIRTY, k=4) + draw.choices(
      SPOILING, k=draw.random() < 0.3
    )
    draw.shuffle(lines)
    text = "\n".join(lines)
    assert ours(text) == theirs(text)
    kept += theirs(text)[0] is not None
  assert 100 < kept < 470


@pytest.mark.parametrize(
  "line, kept_by_us",
  [
    # Their lines end in a blank after the mark is gone, and are dropped.
    ("It was first seen in 1990. [12]", "It was first seen in 1990."),
    # They remove marks once, and would remove the rest another time.
    ("It was[[12]] first seen in 1990.", "It was first seen in 1990."),
  ],
)
def test_where_we_differ(line, kept_by_us):
  good = "One sentence stands on this page. So does another one. And a third."
  assert TFDS.clean(f"{good}\n{line}")[0] == f"{good}\n{kept_by_us}"
  assert theirs(f"{good}\n{line}")[0] != f"{good}\n{kept_by_us}"


@pytest.mark.parametrize("share", [1.0, 0.999, 0.25])
def test_bad_words(share):
  words = ["bother", "go to blazes", "c++"]
  drops = BadWords(tuple(words), share).drops
  keeps = c4_utils.get_badwords_filter_fn({"en": words}, filter_fraction=share)
  for number, line in enumerate(
    [
      *("Do not bother.", "Bother!", "bothered", "_bother_", "a bother"),
      *("Go to\nblazes", "so GO TO BLAZES then", "it is c++", "c++x", ""),
    ]
    * 30
  ):
    url = f"http://www.example.org/{number}/?utm_a=b"
    page = c4_utils.PageFeatures(
      text=line, normalized_url=c4_utils.normalize_url(url), language="en"
    )
    assert drops(line, url) != keeps(page)


@pytest.mark.parametrize(
  "url",
  [
    "http://www.example.org/a/?b=c",
    "https://example.org/?utm_source=x",
    "https://www.example.org//",
    "http://example.org/a?feed=rss&b",
    "",
  ],
)
def test_addresses(url):
  assert addresses.normalized(url) == c4_utils.normalize_url(url)


def test_wet_files(tmp_path, shared_data):
  """They leave out blank lines and lines that begin as WARC's headers do."""
  pages = texts(shared_data / "text/c4_sample/validation.jsonl.gz")
  content = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n"
  for number, text in enumerate(pages):
    body = text.replace("\n", "\n\n", number % 3).encode()
    head = (
      "WARC/1.0\r\nWARC-Type: conversion\r\n"
      f"WARC-Target-URI: http://a.org/{number}/\r\n"
      "WARC-Date: 2019-04-18T10:00:00Z\r\nContent-Type: text/plain\r\n"
      f"Content-Length: {len(body)}\r\n\r\n"
    )
    content += b"\r\n\r\n" + head.encode() + body
  path = tmp_path / "a.warc.wet.gz"
  path.write_bytes(gzip.compress(content))
  expected = list(c4_utils.split_wet_file(path, lambda name, number=1: None))
  with open(path, "rb") as file:
    found = list(reading.read_pages(file, path.name))
  assert len(found) == len(expected) == len(pages)
  for page, other in zip(found, expected, strict=True):
    assert page["url"] == other.url and page["timestamp"] == other.timestamp
    assert ours(page["text"]) == theirs(other.text)


def test_duplicate_lines(shared_data, tmp_path):
  """All lines of C4's pages, given to other pages once more."""
  path = shared_data / "text/c4_sample/validation.jsonl.gz"
  pages = []
  for number, text in enumerate(texts(path)):
    borrowed = pages[number // 2]["text"].split("\n") if number else []
    lines = text.split("\n") + borrowed[:3]
    pages.append({"text": "\n".join(lines), "url": f"http://a.org/{number}"})
  (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, pages)))
  with beam.Pipeline(runner=_runner()) as pipeline:
    _ = (
      c4_utils.remove_duplicate_text(
        pipeline
        | beam.Create([c4_utils.PageFeatures(**page) for page in pages])
      )
      | beam.Map(lambda page: json.dumps([page.url, page.text]))
      | beam.io.WriteToText(str(tmp_path / "theirs"))
    )
  clean(
    [str(tmp_path / "in.jsonl")],
    str(tmp_path / "ours"),
    rules=TFDS,
    duplicates=DuplicateSpans(length=1, unit="line"),
  )
  found = {}
  for file in (tmp_path / "ours").glob("*.gz"):
    for line in gzip.open(file):
      page = json.loads(line)
      found[page["url"]] = page["text"]
  expected = dict(
    json.loads(line)
    for file in tmp_path.glob("theirs-*")
    for line in file.read_text().splitlines()
  )
  assert expected and found == expected


def _runner():
  from transformer_zoo.cleaning import jobs

  return jobs.make_runner(jobs.LOCAL)
