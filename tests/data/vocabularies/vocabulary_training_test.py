from collections import Counter
import gzip
import itertools
import json
import random
import tracemalloc

import pytest

from transformer_zoo.data.vocabularies import training
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.data.vocabularies.training import bpe
from transformer_zoo.data.vocabularies.training import text
from transformer_zoo.errors import UserError

KINDS = ["unigram", "bpe", "wordpiece", "byte_bpe"]
WORKED_EXAMPLE = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
SYLLABLES = "ka lo mi Ne ru sa ü ter vo pin dra hu che by".split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  rng = random.Random(0)
  words = ["".join(rng.choices(SYLLABLES, k=3)) for _ in range(900)]
  lines = [" ".join(rng.choices(words, k=9)) + "." for _ in range(500)]
  path = tmp_path_factory.mktemp("corpus") / "words.txt"
  path.write_text("\n".join(lines), encoding="utf-8")
  return path


def train(corpus, output, kind, size=400, **options):
  return training.train_vocabulary(
    [str(corpus)], str(output), kind=kind, size=size, **options
  )


def test_worked_example():
  learned = bpe.learn(WORKED_EXAMPLE)
  assert [piece for _, piece in itertools.islice(learned, 10)] == (
    "es est lo low ne new newest wi wid widest".split()
  )


def test_worked_example_as_a_vocabulary(tmp_path):
  path = tmp_path / "words.txt"
  words = [[word] * count for word, count in WORKED_EXAMPLE.items()]
  path.write_text("\n".join(itertools.chain(*words)))
  train(path, tmp_path / "bpe", "byte_bpe", 256 + 10 + 5)
  merges = (tmp_path / "bpe/merges.txt").read_text().splitlines()[1:]
  assert [merge.replace(" ", "") for merge in merges] == (
    "es est lo low ne new newest wi wid widest".split()
  )
  vocabulary = Vocabulary(tmp_path / "bpe")
  ids = vocabulary.encode("lowest")
  assert [vocabulary.decode([i]) for i in ids] == ["low", "est"]


def merges_one_by_one(words, number):
  """Sennrich et al. 2016, figure 1: all pairs are counted for every merge."""
  words = {tuple(word): count for word, count in words.items()}
  merges = []
  for _ in range(number):
    pairs = Counter()
    for word, count in words.items():
      for pair in itertools.pairwise(word):
        pairs[pair] += count
    if not pairs or max(pairs.values()) < 2:
      break
    best = max(pairs, key=pairs.get)
    merges.append(best)
    merged = []
    for word in words:
      symbols = list(word)
      for i in range(len(symbols) - 1):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == best:
          symbols[i : i + 2] = ["".join(best)]
      merged.append(tuple(symbols))
    words = dict(zip(merged, words.values(), strict=True))
  return merges


@pytest.mark.parametrize("seed", range(8))
def test_merges_are_those_of_the_plain_algorithm(seed):
  rng = random.Random(seed)
  words = {
    "".join(rng.choices("abc", k=rng.randint(1, 9))): rng.randint(1, 4)
    for _ in range(40)
  }
  ours = [pair for pair, _ in itertools.islice(bpe.learn(words), 60)]
  assert ours == merges_one_by_one(words, 60)


@pytest.mark.parametrize("kind", KINDS)
def test_trained_vocabulary_is_used_by_its_folder(kind, corpus, tmp_path):
  found = train(corpus, tmp_path / kind, kind)
  vocabulary = Vocabulary(tmp_path / kind)
  assert found["size"] == vocabulary.size == 400 + vocabulary.extra_ids
  assert found["lines"] == 500 and found["lines_learned_from"] == 495
  held_out = found["held_out"]
  assert held_out["lines"] == 5 and held_out["unknown_rate"] == 0
  assert 1.5 < held_out["characters_per_token"] < held_out["bytes_per_token"]
  assert sum(share for _, share in held_out["most_frequent"]) <= 1
  stored = json.loads((tmp_path / kind / "report.json").read_text())
  assert stored == found
  line = corpus.read_text(encoding="utf-8").split("\n")[7]
  decoded = vocabulary.decode([*vocabulary.encode(line), vocabulary.eos_id, 5])
  assert decoded == line


@pytest.mark.parametrize(
  "kind, special_tokens, ids",
  [
    ("unigram", "t5", {"pad": 0, "eos": 1, "unk": 2, "bos": None}),
    ("bpe", "albert", {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}),
    ("wordpiece", None, {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}),
    (
      "byte_bpe",
      None,
      {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "cls": 0, "sep": 2, "mask": 399},
    ),
    ("byte_bpe", "gpt2", {"pad": 399, "eos": 399, "unk": None, "mask": None}),
  ],
)
def test_special_ids(kind, special_tokens, ids, corpus, tmp_path):
  train(corpus, tmp_path / "v", kind, special_tokens=special_tokens)
  vocabulary = Vocabulary(tmp_path / "v")
  assert {name: getattr(vocabulary, f"{name}_id") for name in ids} == ids


@pytest.mark.parametrize("kind", KINDS)
def test_one_text_gives_one_vocabulary(kind, corpus, tmp_path):
  checksums = set()
  for name in "ab":
    train(corpus, tmp_path / name, kind)
    checksums.add(Vocabulary(tmp_path / name).checksum)
  assert len(checksums) == 1


def test_case_and_bytes(corpus, tmp_path):
  for kind in KINDS[:3]:
    train(corpus, tmp_path / kind, kind, 300, lower_case=True)
    vocabulary = Vocabulary(tmp_path / kind)
    assert vocabulary.encode("NeKA") == vocabulary.encode("neka")
    assert vocabulary.unk_id not in vocabulary.encode("NeKA")
  train(corpus, tmp_path / "bytes", "unigram", byte_fallback=True)
  vocabulary = Vocabulary(tmp_path / "bytes")
  assert vocabulary.decode(vocabulary.encode("漢🙂")) == "漢🙂"


def test_rare_characters_are_left_out(tmp_path):
  path = tmp_path / "text.txt"
  path.write_text("ab ba aab bba\n" * 200 + "abq\n", encoding="utf-8")
  train(path, tmp_path / "v", "wordpiece", 12, character_coverage=0.999)
  assert "q" not in (tmp_path / "v/vocab.txt").read_text().split("\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_size_that_the_text_does_not_allow(kind, corpus, tmp_path):
  with pytest.raises(UserError, match=r"at most [\d,]+ pieces, not 90,000"):
    train(corpus, tmp_path / "v", kind, 90_000)
  with pytest.raises(UserError, match=r"9 pieces is too small .* at least \d+"):
    train(corpus, tmp_path / "v", kind, 9)
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
  "options, message",
  [
    ({"kind": "unigramm"}, "no kind of vocabulary 'unigramm'; did you mean"),
    ({"special_tokens": "bert"}, "'unigram' has no special tokens 'bert'"),
    ({"max_lines": 0}, "0 lines are none to learn from"),
    ({"size": 0}, "a vocabulary of 0 pieces is empty"),
    ({"character_coverage": 2}, "coverage is 2; it is a share"),
    ({"kind": "byte_bpe", "byte_fallback": True}, "byte fallback is for uni"),
    ({"kind": "byte_bpe", "lower_case": True}, "no text without case"),
  ],
)
def test_arguments_that_cannot_be_meant(options, message, corpus, tmp_path):
  with pytest.raises(UserError, match=message):
    train(corpus, tmp_path / "v", **{"kind": "unigram"} | options)


def test_nothing_is_overwritten(corpus, tmp_path):
  train(corpus, tmp_path / "v", "byte_bpe")
  before = (tmp_path / "v/vocab.json").read_bytes()
  with pytest.raises(UserError, match="v' exists already; name another folder"):
    train(corpus, tmp_path / "v", "byte_bpe", 300)
  assert (tmp_path / "v/vocab.json").read_bytes() == before


def test_files_of_every_form_are_read(tmp_path):
  (tmp_path / "a.txt").write_text("one\n\n  two \n", encoding="utf-8")
  rows = "".join(json.dumps({"body": t}) + "\n" for t in ("three\nfour", "é"))
  (tmp_path / "b.jsonl").write_text(rows)
  (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
  (tmp_path / "d.txt").write_bytes(gzip.compress(b"five"))
  found = text.find_files([str(tmp_path / "*"), str(tmp_path / "a.txt")])
  assert list(text.read_lines(found, "body")) == (
    ["one", "two", *["three", "four", "é"] * 2, "five"]
  )


def test_long_lines_are_cut_at_spaces(tmp_path):
  path = tmp_path / "book.txt"
  words = ["word"] * 1_000 + ["w" * 5_000]
  path.write_text(" ".join(words))
  lines = list(text.read_lines([str(path)]))
  assert max(map(len, lines)) <= 2_000
  assert "".join(lines).replace(" ", "") == "".join(words)


@pytest.mark.parametrize(
  "name, content, message",
  [
    ("a.txt", b"\xff\xfe", "a.txt' is not UTF-8"),
    ("a.jsonl", b'{"text": "x"}\n[]\n', "line 2 of .*a.jsonl' is no JSON"),
    ("a.jsonl", b'{"text": 3}', "line 1 of .* with a text 'text'"),
    ("a.gz", gzip.compress(b"text" * 99, mtime=0)[:-9], "cannot read .*a.gz"),
    ("a.txt", b"\n \n", "the text has no line to learn"),
  ],
)
def test_bad_text_is_told(name, content, message, tmp_path):
  (tmp_path / name).write_bytes(content)
  with pytest.raises(UserError, match=message):
    train(tmp_path / name, tmp_path / "v", "byte_bpe")


def test_no_file():
  with pytest.raises(UserError, match=r"no file matches 'absent/\*'"):
    text.find_files(["absent/*"])


def test_sample_is_uniform_and_repeatable():
  lines = [str(i) for i in range(10_000)]
  found = text.sample(iter(lines), 1_000, seed=1)
  assert found == text.sample(iter(lines), 1_000, seed=1)
  assert found.lines != text.sample(iter(lines), 1_000, seed=2).lines
  assert found.num_lines == 10_000 and len(set(found.lines)) == 1_000
  assert found.held_out == lines[99::100]
  # The mean of 1,000 out of 0..9,999 has a standard deviation of 87.
  assert abs(sum(map(int, found.lines)) / 1_000 - 5_000) < 350


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(monkeypatch):
  monkeypatch.setattr(text, "_MOST_HELD_OUT", 100)

  def peak(number):
    tracemalloc.start()
    lines = (f"line number {i} of a long text" for i in range(number))
    text.sample(lines, 500, seed=0)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found

  assert peak(90_000) - peak(30_000) < 20_000
