"""Whole cleanings, on Beam's in-process runner: few and small."""

import gzip
import json
import random

import gin
import pytest

from transformer_zoo.cleaning.duplicates import DuplicateSpans
from transformer_zoo.cleaning.languages import LanguageFilter
from transformer_zoo.cleaning.rules import Rules
from transformer_zoo.cleaning.run import clean
from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError

beam = pytest.importorskip("apache_beam")
pytest.importorskip("sentencex")
pytest.importorskip("py3langid")

SHARED = (
  "All of this text stands on several pages. It was copied by one of them. "
  "Nobody knows any longer which one."
)
TREES = "oak elm ash fir yew box pine palm".split()


def write(path, pages):
  lines = "".join(json.dumps(page) + "\n" for page in pages)
  path.write_bytes(gzip.compress(lines.encode()))
  return str(path)


def read(folder):
  return [
    json.loads(line)
    for path in sorted(folder.glob("*.jsonl.gz"))
    for line in gzip.decompress(path.read_bytes()).splitlines()
  ]


def content(folder):
  return {path.name: path.read_bytes() for path in folder.iterdir()}


def random_pages(draw):
  """Pages of few different sentences, so that spans come back and overlap."""
  for number in range(24):
    lines = [
      " ".join(f"This is an old {draw.choice(TREES)} tree." for _ in range(k))
      for k in draw.choices([1, 2, 3], k=4)
    ]
    yield {"text": "\n".join(lines), "url": f"http://example.org/{number}"}


@pytest.mark.slow
def test_random_pages_hold_no_span_twice_and_stay_as_they_are(tmp_path):
  draw = random.Random(0)
  pages = list(random_pages(draw))
  spans = DuplicateSpans()
  options = {"duplicates": spans, "rules": Rules(), "num_shards": 3}
  report = clean(
    [write(tmp_path / "in.jsonl.gz", pages)], str(tmp_path / "one"), **options
  )
  assert report.duplicate_spans > 5 and report.duplicate_rounds > 1
  assert report.lines_dropped["duplicate"] > 0
  found = [
    s for page in read(tmp_path / "one") for s in spans.spans(page["text"])
  ]
  assert found and len(found) == len(set(found))
  # Other files, other order.
  draw.shuffle(pages)
  write(tmp_path / "part-0.jsonl.gz", pages[:7])
  write(tmp_path / "part-1.jsonl.gz", pages[7:])
  clean([str(tmp_path / "part-*")], str(tmp_path / "two"), **options)
  assert content(tmp_path / "one") == content(tmp_path / "two")
  again = [str(tmp_path / "one" / "*.gz")]
  report = clean(again, str(tmp_path / "three"), **options)
  assert read(tmp_path / "one") == read(tmp_path / "three")
  assert not report.pages_dropped and report.lines_dropped == {"with_page": 0}


@pytest.mark.slow
def test_real_pages_stay_as_they_are(shared_data, tmp_path):
  """C4's own pages, among them some that share text, and some in German."""
  path = shared_data / "text/c4_sample/validation.jsonl.gz"
  pages = [json.loads(line) for line in gzip.open(path)]
  for number, page in enumerate(pages[:20]):
    other = pages[number + 20]["text"].split("\n")
    page["text"] += "\nShare this page | Print\n" + "\n".join(other[:3])
  pages.append({"text": "Das ist keine englische Seite. " * 9, "url": "x"})
  options = {
    "rules": Rules(),
    "duplicates": DuplicateSpans(),
    "language": LanguageFilter(),
  }
  inputs = [write(tmp_path / "in.jsonl.gz", pages)]
  report = clean(inputs, str(tmp_path / "one"), **options)
  assert report.duplicate_spans > 20
  assert report.lines_dropped["no_end_mark"] == 20
  assert report.pages_dropped["language"] >= 1
  again = [str(tmp_path / "one" / "*.gz")]
  report = clean(again, str(tmp_path / "two"), **options)
  assert read(tmp_path / "one") == read(tmp_path / "two")
  assert report.pages_dropped == {} and report.duplicate_spans == 0
  assert all(
    {"text", "url", "timestamp"} == set(p) for p in read(tmp_path / "two")
  )


def test_every_rule_is_counted_once(tmp_path):
  texts = {
    "kept": "\n".join(
      f"This is the line about an old {t} tree." for t in TREES
    ),
    "bracket": "It is so.\n{",
    "bad": SHARED + " Do not bother.",
    "few": "Only one sentence stands on this page.",
    "shared1": SHARED,
    "shared2": SHARED + " And one more sentence stands here.",
    "foreign": "Das ist eine Seite. Sie ist nicht englisch. Gar nicht, nein.",
  }
  pages = [
    {"text": text, "url": f"http://{name}.org/a", "timestamp": "2019"}
    for name, text in texts.items()
  ]
  pages.append(dict(pages[0], timestamp="2020"))
  pages.append({"text": texts["kept"], "url": "http://elsewhere.com"})
  words = tmp_path / "words"
  words.write_text("bother\n")
  hosts = tmp_path / "hosts"
  hosts.write_text("\n".join(f"{name}.org" for name in texts))
  report = clean(
    [write(tmp_path / "in.jsonl.gz", pages)],
    str(tmp_path / "out"),
    rules=Rules(),
    duplicates=DuplicateSpans(),
    language=LanguageFilter(),
    one_page_per_url=True,
    bad_words=str(words),
    host_names=str(hosts),
    num_shards=1,
  )
  assert report.pages_read == 9 and report.pages_written == 2
  assert report.pages_dropped == {
    "bad_word": 1,
    "curly_bracket": 1,
    # The page of one sentence, and what is left of one of the shared ones.
    "few_sentences": 2,
    "host_name": 1,
    "language": 1,
    "older": 1,
  }
  assert json.loads((tmp_path / "out/report.json").read_text()) == vars(report)
  kept = {page["url"]: page for page in read(tmp_path / "out")}
  assert kept["http://kept.org/a"]["timestamp"] == "2020"
  lines = report.lines_dropped
  assert report.lines_read - sum(lines.values()) == report.lines_written


def test_pages_of_listed_addresses_without_rules(tmp_path):
  pages = [{"text": "{", "url": f"http://a.org/{n}"} for n in range(3)]
  urls = tmp_path / "urls.txt"
  urls.write_text("https://www.a.org/1/\nhttp://b.org\nhttp://a.org/1\n")
  inputs = [write(tmp_path / "in.jsonl.gz", pages)]
  report = clean(inputs, str(tmp_path / "out"), urls=str(urls), num_shards=2)
  assert read(tmp_path / "out") == [pages[1]]
  assert report.pages_dropped == {"url": 2} and report.duplicate_rounds == 0


def refused(tmp_path, content=b'{"text": "a"}', **options):
  """Returns the error of a cleaning, which must leave nothing behind."""
  path = tmp_path / "in.jsonl"
  path.write_bytes(content)
  before = {p: p.is_dir() or p.read_bytes() for p in tmp_path.rglob("*")}
  options = {
    "inputs": [str(path)],
    "output_dir": str(tmp_path / "out"),
  } | options
  with pytest.raises(UserError) as caught:
    clean(**options)
  after = {p: p.is_dir() or p.read_bytes() for p in tmp_path.rglob("*")}
  assert after == before
  return str(caught.value)


def test_a_bad_row_is_told(tmp_path):
  message = refused(tmp_path, b'{"text": "a"}\n{"url": "b"}\n')
  assert message.startswith("Line 2 of ") and message.endswith(
    "has no 'text' that is a string; correct it, or pass over what is bad with "
    "--skip_bad_rows."
  )


class AbsentCluster(beam.runners.runner.PipelineRunner):
  """A runner that does not reach what it runs on."""

  def run_pipeline(self, pipeline, options):
    raise ConnectionError("no answer\nfrom the cluster")


def test_a_runner_that_fails_is_told(tmp_path):
  message = refused(tmp_path, runner=f"{__name__}.AbsentCluster")
  assert message == "AbsentCluster failed: ConnectionError: no answer"


def test_bad_rows_are_counted(tmp_path):
  path = tmp_path / "in.jsonl"
  path.write_bytes(b'{"text": "a"}\n{"url": "b"}\nc\n')
  out = str(tmp_path / "out")
  assert clean([str(path)], out, skip_bad_rows=True).bad_rows == 2


@pytest.mark.slow
def test_a_cleaning_that_keeps_nothing(tmp_path):
  inputs = [write(tmp_path / "in.jsonl.gz", [{"text": "{"}])]
  options = {"rules": Rules(), "duplicates": DuplicateSpans()}
  report = clean(inputs, str(tmp_path / "out"), **options)
  assert report.pages_dropped == {"curly_bracket": 1}
  assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.json"]


def test_tasks_read_the_output(tmp_path):
  seqio = pytest.importorskip("seqio")
  from tasks.sources.text_files import TextFilesDataSource

  pages = [{"text": "ä\nb", "url": "http://a.org"}]
  inputs = [write(tmp_path / "in.jsonl.gz", pages)]
  clean(inputs, str(tmp_path / "out"), num_shards=2)
  source = TextFilesDataSource({"train": str(tmp_path / "out/pages-*")}, "text")
  assert isinstance(source, seqio.DataSource)
  rows = source.get_dataset("train", shuffle=False).as_numpy_iterator()
  assert [row["text"].decode() for row in rows] == ["ä\nb"]


@pytest.mark.parametrize(
  "options, message",
  [
    ({"runner": "DataflowRunner"}, "Missing required option: region"),
    ({"inputs": ["nowhere/*.gz"]}, "No file is 'nowhere/*.gz'."),
    ({"runner": "Flnk"}, "did you mean 'FlinkRunner'?"),
    ({"runner": "no.such.Runner"}, "Beam has no runner 'no.such.Runner'"),
    ({"beam_options": ["--num_wrkers=2"]}, "did you mean '--num_workers'"),
    ({"beam_options": ["--direct_running_mode=x"]}, "invalid choice: 'x'"),
    ({"num_shards": 0}, "num_shards is 0"),
    ({"inputs": ["."]}, "The file '.' cannot be read"),
    ({"output_dir": "/dev/null/out"}, "'/dev/null/out' cannot be made"),
    ({"bad_words": "x"}, "no rules that use it"),
    ({"bad_words": "nowhere", "rules": Rules()}, "No file is 'nowhere'."),
    ({"urls": "nowhere"}, "No file is 'nowhere'."),
  ],
)
def test_bad_options_are_told(tmp_path, options, message):
  assert message in refused(tmp_path, **options)


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
  path, out = tmp_path / "in.jsonl", tmp_path / "out"
  path.write_text(json.dumps({"text": SHARED}) + "\n" + '{"text": "Few."}')
  words = ["clean", f"--input={path}", f"--output_dir={out}"]
  assert cli.main([*words, "--gin.Rules.min_sentences_per_page=2"]) == 0
  gin.clear_config()
  printed = capsys.readouterr().out
  assert "rules: 2 pages read, 1 left\n" in printed
  assert [line.split() for line in printed.splitlines()[-4:]] == [
    ["read", "2", "2"],
    ["few", "sentences", "-1"],
    ["few", "words", "-1"],
    ["written", "1", "1"],
  ]
  assert "Rules.min_sentences_per_page = 2" in (out / "config.gin").read_text()
  assert cli.main(words) == 2
  assert "is not empty; name another one" in capsys.readouterr().err
  assert cli.main([*words, "--direct_num_wrkers=2"]) == 2
  assert "did you mean '--direct_num_workers'" in capsys.readouterr().err
  gin.clear_config()


def test_an_output_folder_with_something_in_it_is_left_alone(tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "thesis.tex").write_text("All my work.")
  assert "is not empty; name another one" in refused(tmp_path)


def test_an_empty_output_folder_is_taken(tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "in.jsonl").write_text('{"text": "a"}')
  clean([str(tmp_path / "in.jsonl")], str(tmp_path / "out"), num_shards=1)
  assert [page["text"] for page in read(tmp_path / "out")] == ["a"]
