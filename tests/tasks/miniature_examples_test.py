"""The supervised examples: disjoint, balanced, not won by shallow rules."""

import collections
import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from tasks.miniature import documents
from tasks.miniature import examples
from tasks.miniature import examples_pairs
from tasks.miniature import examples_reading
from tasks.miniature import examples_single
from tasks.miniature import world

WRITERS = {
  "acceptability": (examples_single.acceptability, 0),
  "sentiment": (examples_single.sentiment, 1),
  "paraphrase": (examples_pairs.paraphrase, 2),
  "similarity": (examples_pairs.similarity, 3),
  "entailment": (examples_pairs.entailment, 4),
  "cause_or_effect": (examples_pairs.cause_or_effect, 5),
  "referent": (examples_single.referent, 6),
  "word_in_context": (examples_pairs.word_in_context, 7),
  "span_answer": (examples_reading.span_answer, 8),
  "summary": (examples_reading.summary, 9),
  "translation": (examples_reading.translation, 10),
}
# Tasks of reading: what they ask for is copied or translated, so that all words
# are in every split and examples are dealt by a hash.
READING = ["referent", "span_answer", "summary", "translation"]
LABELLED = [
  "acceptability",
  "sentiment",
  "paraphrase",
  "entailment",
  "cause_or_effect",
  "word_in_context",
]


def read(name, split):
  write, stream = WRITERS[name]
  return examples.examples(
    write, stream=stream, split=split, own_words=name not in READING
  )


def content(example):
  """The raw example without its label, as one text."""
  return " ".join(str(v) for k, v in example.items() if k != "label")


def open_words(split):
  part = world.World().part(split)
  words = {f for cs in part.nouns.values() for c in cs for f in c}
  words |= {w for pole in part.poles for words in pole for w in words}
  return words | {a.word for a in part.ambiguous}


def test_parts_share_no_word_and_leave_none_out():
  parts = [open_words(split) for split in world.SPLITS]
  assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
  whole = world.World().everything
  concepts = [c for cs in whole.nouns.values() for c in cs]
  assert {f for c in concepts for f in c} <= set.union(*parts)
  events = [set(world.World().part(s).events) for s in world.SPLITS]
  assert set.union(*events) == set(whole.events)
  assert sum(map(len, events)) == len(whole.events)


@pytest.mark.parametrize("name", WRITERS)
def test_splits_are_whole_repeat_and_are_disjoint(name):
  seen = {}
  for split in world.SPLITS:
    rows = read(name, split)
    assert len(rows) == examples.SIZES[split]
    assert rows == read(name, split)
    seen[split] = {content(row) for row in rows}
    assert len(seen[split]) == len(rows)
    # Words of another split's part never occur, except in a cause's wording.
    if name not in ["cause_or_effect", *READING]:
      foreign = (
        set().union(*(open_words(s) for s in world.SPLITS if s != split))
        - CLOSED
      )
      words = set(re.findall("[a-z]+", " ".join(seen[split])))
      assert not words & foreign
  assert not seen["train"] & (seen["validation"] | seen["test"])
  assert not seen["validation"] & seen["test"]


# Open words that are also words of the grammar or the name of a class.
CLOSED = set(
  "animal food tool garment vehicle instrument plant place hot cold wet dry "
  "near hand".split()
)


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("split", world.SPLITS)
def test_labels_are_balanced(name, split):
  counts = collections.Counter(row["label"] for row in read(name, split))
  assert max(counts.values()) - min(counts.values()) <= 2


def test_similarities_lie_on_the_grid_and_spread():
  scores = np.array([float(r["label"]) for r in read("similarity", "train")])
  np.testing.assert_allclose(scores * 5, np.round(scores * 5), atol=1e-9)
  assert scores.min() < 0.5 and scores.max() == 5.0
  assert len(set(scores)) > 12


@pytest.mark.parametrize("name", LABELLED)
def test_bag_of_words_of_the_training_examples_is_not_enough(name):
  """Words, pairs of words and length do not carry over to other words."""
  texts, labels = {}, {}
  for split in ("train", "validation"):
    rows = read(name, split)
    texts[split] = [
      content(row) + f" length{len(content(row).split())}" for row in rows
    ]
    labels[split] = [row["label"] for row in rows]
  vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True)
  model = LogisticRegression(C=0.3, max_iter=300)
  model.fit(vectorizer.fit_transform(texts["train"]), labels["train"])
  score = model.score(
    vectorizer.transform(texts["validation"]), labels["validation"]
  )
  chance = 1 / len(set(labels["train"]))
  assert score < chance + 0.17, score


def test_referents_and_answers_stand_in_the_text():
  rows = read("referent", "train")
  assert all(row["referent"] in row["text"] for row in rows)
  first = [
    row["text"].startswith(row["referent"] + " ")
    or row["referent"].startswith("the ")
    and row["referent"] in row["text"].split(" near ")[0]
    for row in rows
  ]
  assert 0.4 < np.mean(first) < 0.6
  for row in read("span_answer", "validation"):
    assert row["answers"][0] in row["context"]


def passages(text):
  """Each sentence with the next one; of one sentence, the sentence."""
  sentences = re.findall(r"[^.!?:]+[.!?:]", text.replace(". ", "."))
  pairs = [a + b for a, b in zip(sentences, sentences[1:], strict=False)]
  return pairs if len(sentences) > 1 else sentences


@pytest.mark.slow
def test_no_example_is_in_the_corpus():
  known = set()
  for domain, count in (("chronicle", 40_000), ("review", 10_000)):
    for text in documents.documents(domain, count=count):
      known.update(passages(text))
      known.update(re.findall(r"[^.!?:]+[.!?:]", text.replace(". ", ".")))
  for name in WRITERS:
    found = []
    for row in read(name, "validation") + read(name, "test"):
      # All that the example says; causes are common knowledge.
      fields = [v for v in row.values() if isinstance(v, str) and "." in v]
      said = [s for field in fields for s in passages(field)]
      found.append(all(s in known for s in said))
    assert name == "cause_or_effect" or not any(found), name
