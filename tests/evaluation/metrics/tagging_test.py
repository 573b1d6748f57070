"""Entities of IOB1 and IOB2 tags, and their F1."""

import random

import pytest

from transformer_zoo.evaluation.answers import tagged_text
from transformer_zoo.evaluation.metrics import classification


@pytest.mark.parametrize(
  "tags, expected",
  [
    ("", []),
    ("O O", []),
    # IOB1, as in the files of CoNLL-2003.
    ("I-ORG O I-MISC", [("ORG", 0, 1), ("MISC", 2, 3)]),
    ("I-PER I-PER O", [("PER", 0, 2)]),
    ("I-PER B-PER I-PER", [("PER", 0, 1), ("PER", 1, 3)]),
    ("I-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
    # IOB2.
    ("B-PER I-PER B-PER", [("PER", 0, 2), ("PER", 2, 3)]),
    ("O B-LOC I-PER", [("LOC", 1, 2), ("PER", 2, 3)]),
    ("B-A-B I-A-B", [("A-B", 0, 2)]),
  ],
)
def test_entities(tags, expected):
  assert tagged_text.entities(tags.split()) == expected


@pytest.mark.parametrize("first", ["B", "I"])
def test_reads_back_what_either_scheme_writes(first):
  rng = random.Random(0)
  for _ in range(200):
    tags, spans = [], []
    for _ in range(rng.randrange(1, 6)):
      gap, size, kind = rng.randrange(3), rng.randrange(1, 4), rng.choice("XY")
      tags += ["O"] * gap
      touches = bool(spans) and not gap and spans[-1][0] == kind
      spans.append((kind, len(tags), len(tags) + size))
      begin = "B" if touches else first
      tags += [f"{begin}-{kind}", *[f"I-{kind}"] * (size - 1)]
    assert tagged_text.entities(tags) == spans


@pytest.mark.parametrize("tag", ["", "B", "I-", "E-PER", "0", "o"])
def test_other_tags_are_refused(tag):
  with pytest.raises(
    ValueError, match=f"^tag '{tag}' is none of O, B-<type> and I-<type>$"
  ):
    tagged_text.entities(["O", tag])


SENTENCE = [("PER", 0, 2), ("LOC", 3, 4)]


@pytest.mark.parametrize(
  "predicted, expected",
  [
    (SENTENCE, 100),
    ([["LOC", 3, 4], ["PER", 0, 2]], 100),
    ([("PER", 0, 2)], 200 / 3),
    ([("PER", 0, 2), ("LOC", 3, 5)], 50),
    ([("PER", 0, 2), ("ORG", 3, 4)], 50),
    ([*SENTENCE, ("LOC", 3, 4)], 80),
    ([], 0),
    (None, 0),
  ],
)
def test_entities_count_where_type_and_span_are_right(predicted, expected):
  actual = classification.entity_f1([SENTENCE], [predicted])
  assert actual == {"entity_f1": pytest.approx(expected)}


def test_entity_f1_is_over_the_corpus_and_by_sentence():
  rng = random.Random(0)

  def some():
    spans = [(rng.choice("AB"), rng.randrange(3), 3) for _ in range(3)]
    return list(dict.fromkeys(spans))

  targets = [some() for _ in range(50)]
  predictions = [rng.choice([some(), None]) for _ in range(50)]
  # Every pair of places is compared, instead of sets of them.
  places = [
    [(i, e) for i, sentence in enumerate(side) for e in sentence or ()]
    for side in (targets, predictions)
  ]
  right = sum(t == p for t in places[0] for p in places[1])
  precision, recall = right / len(places[1]), right / len(places[0])
  expected = 200 * precision * recall / (precision + recall)
  actual = classification.entity_f1(targets, predictions)
  assert actual == {"entity_f1": pytest.approx(expected)}
  assert 0 < expected < 100


def test_no_entity_at_all_scores_zero():
  assert classification.entity_f1([[], []], [[], None]) == {"entity_f1": 0}
