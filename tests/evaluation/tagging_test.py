"""Entities of IOB1 and IOB2 tags."""

import random

import pytest

from transformer_zoo.evaluation import tagging


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
  assert tagging.entities(tags.split()) == expected


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
    assert tagging.entities(tags) == spans


@pytest.mark.parametrize("tag", ["", "B", "I-", "E-PER", "0", "o"])
def test_other_tags_are_refused(tag):
  with pytest.raises(
    ValueError, match=f"^tag '{tag}' is none of O, B-<type> and I-<type>$"
  ):
    tagging.entities(["O", tag])
