"""The supervised examples: disjoint, balanced, not won by shallow rules."""

import collections
import functools
import re

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
import threadpoolctl

from tasks.miniature.documents import domains
from tasks.miniature.examples import pairs
from tasks.miniature.examples import reading
from tasks.miniature.examples import single
from tasks.miniature.examples import splits
from tasks.miniature.probes import files
from tasks.miniature.world import world

WRITERS = {
  "acceptability": (single.acceptability, 0),
  "sentiment": (single.sentiment, 1),
  "paraphrase": (pairs.paraphrase, 2),
  "similarity": (pairs.similarity, 3),
  "entailment": (pairs.entailment, 4),
  "cause_or_effect": (pairs.cause_or_effect, 5),
  "referent": (single.referent, 6),
  "word_in_context": (pairs.word_in_context, 7),
  "span_answer": (reading.span_answer, 8),
  "summary": (reading.summary, 9),
  "translation": (reading.translation, 10),
}
# What one can score without knowing what held-out words mean: one of the
# labels, or of the two that the example names; neutral hypotheses are told by
# their words.
CHANCE = {
  "acceptability": 1 / 2,
  "sentiment": 1 / 2,
  "entailment": 2 / 3,
  "cause_or_effect": 1 / 2,
  "referent": 1 / 2,
  "word_in_context": 1 / 2,
}


@functools.cache
def read(name, split):
  write, stream = WRITERS[name]
  return splits.examples(
    write, stream=stream, split=split, own_words=name != "summary"
  )


def test_files_of_probes_are_those_that_their_module_writes():
  for name, text in files.files().items():
    assert (files.FOLDER / name).read_text(encoding="utf-8") == text
  phenomena = [phenomenon for *_, phenomenon in files.pairs()]
  assert collections.Counter(phenomena) == dict.fromkeys(
    files.PHENOMENA, files.NUMBER
  )


def content(example):
  """The raw example without its label, as one text."""
  return " ".join(str(v) for k, v in example.items() if k != "label")


def open_words(split):
  part = world.World().part(split)
  words = {f for cs in part.nouns.values() for c in cs for f in c}
  words |= {w for pole in part.poles for words in pole for w in words}
  words |= {a.word for a in part.ambiguous}
  words |= {event.state for event in part.events}
  return words | {noun for e in part.events for _, noun in e.causes}


def test_parts_share_no_word_and_leave_none_out():
  parts = [open_words(split) for split in world.SPLITS]
  assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
  whole = world.World().everything
  concepts = [c for cs in whole.nouns.values() for c in cs]
  assert {f for c in concepts for f in c} <= set.union(*parts)
  events = [set(world.World().part(s).events) for s in world.SPLITS]
  assert set.union(*events) == set(whole.events)
  assert sum(map(len, events)) == len(whole.events)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_splits_repeat_and_are_disjoint(name):
  seen = {}
  for split in world.SPLITS:
    rows = read(name, split)
    assert len(rows) == splits.SIZES[split]
    if split == "test":
      assert rows == read.__wrapped__(name, split)
    seen[split] = {content(row) for row in rows}
    assert split == "train" or len(seen[split]) == len(rows)
  assert not seen["train"] & (seen["validation"] | seen["test"])
  assert not seen["validation"] & seen["test"]


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"summary"}))
@pytest.mark.parametrize("split", ["validation", "test"])
def test_held_out_facts_and_held_out_combinations_are_told_apart(name, split):
  """Of facts no word is in training, of combinations every one is."""
  trained = open_words("train") - CLOSED
  other = set().union(*(open_words(s) for s in world.SPLITS[1:])) - CLOSED
  if name in ("span_answer", "referent", "cause_or_effect", "word_in_context"):
    nouns = world.World().everything.nouns
    people = {c[0] for kind in ("woman", "man") for c in nouns[kind]}
    trained, other = trained - people, other - people
  kinds = collections.Counter()
  for number, row in enumerate(read(name, split)):
    words = set(re.findall("[a-z]+", content(row)))
    kind = splits.kind(number)
    kinds[kind] += 1
    assert not words & (trained if kind == "facts" else other), row
  assert min(kinds.values()) > 90


# Open words that are also words of the grammar or the name of a class.
CLOSED = set(
  "animal food tool garment vehicle instrument plant place hot cold wet dry "
  "near hand proud thing lost".split()
)


@pytest.mark.parametrize("name", list(CHANCE)[:4])
@pytest.mark.parametrize("split", world.SPLITS)
def test_labels_are_balanced(name, split):
  counts = collections.Counter(row["label"] for row in read(name, split))
  assert max(counts.values()) - min(counts.values()) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANCE)
def test_bag_of_words_of_the_training_examples_is_not_enough(name):
  """Words, pairs of words and length do not carry over to held-out facts."""
  texts, labels = {}, {}
  for split in ("train", "validation"):
    rows = read(name, split)
    if split == "validation":
      rows = [r for n, r in enumerate(rows) if splits.kind(n) == "facts"]
    texts[split] = [
      content(row) + f" length{len(content(row).split())}" for row in rows
    ]
    labels[split] = [row["label"] for row in rows]
  vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True)
  model = LogisticRegression(C=0.3, max_iter=300)
  # Several threads take longer, and the time of other processes.
  with threadpoolctl.threadpool_limits(1):
    model.fit(vectorizer.fit_transform(texts["train"]), labels["train"])
    score = model.score(
      vectorizer.transform(texts["validation"]), labels["validation"]
    )
  assert score < CHANCE[name] + 0.17, score


def test_both_senses_are_meant_as_often():
  first = {a.word: a.senses[0] for a in world.World().everything.ambiguous}
  for split in world.SPLITS:
    rows = read("word_in_context", split)
    meant = [row["label"] == first[row["word"]] for row in rows]
    assert sum(meant) * 2 == len(meant)


def test_answers_stand_in_the_text():
  for row in read("span_answer", "validation"):
    assert row["answers"][0] in row["context"]
  for row in read("referent", "train"):
    assert row["label"] in (row["kind1"], row["kind2"])
  for row in read("word_in_context", "train"):
    assert row["label"] in (row["sense1"], row["sense2"])


def passages(text):
  """Each sentence with the next one; of one sentence, the sentence."""
  sentences = re.findall(r"[^.!?:]+[.!?:]", text.replace(". ", "."))
  pairs = [a + b for a, b in zip(sentences, sentences[1:], strict=False)]
  return pairs if len(sentences) > 1 else sentences


@pytest.mark.slow
def test_no_example_is_in_the_corpus():
  known = set()
  for domain, count in (("chronicle", 40_000), ("review", 10_000)):
    for text in domains.documents(domain, count=count):
      known.update(passages(text))
      known.update(re.findall(r"[^.!?:]+[.!?:]", text.replace(". ", ".")))
  for name in WRITERS:
    found = []
    for row in read(name, "validation") + read(name, "test"):
      # All that the example says; causes and senses are common knowledge.
      fields = [v for v in row.values() if isinstance(v, str) and "." in v]
      said = [s for field in fields for s in passages(field)]
      found.append(all(s in known for s in said))
    common = name in ("cause_or_effect", "word_in_context")
    assert common or not any(found), name
