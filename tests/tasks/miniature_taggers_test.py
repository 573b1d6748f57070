"""The taggers of the miniature world."""

import numpy as np
import pytest

from tasks.miniature import source
from tasks.miniature import taggers
from transformer_zoo.data.vocabularies import vocabulary

VOCABULARY = vocabulary.from_seqio(source.FEATURES["inputs"].vocabulary)


@pytest.mark.parametrize(
  ("tagger", "text", "expected"),
  [
    (
      taggers.entities,
      "in brindle, emma fed the otter.",
      ["brindle,", "emma"],
    ),
    (
      taggers.noun_phrases,
      "emma fed the small otter. a very old and quiet otter ran.",
      ["emma", "the small otter."],
    ),
    (taggers.entities, "the otter ran.", []),
  ],
)
def test_spans_are_whole_words(tagger, text, expected):
  tokens = np.array(VOCABULARY.encode(text), np.int32)
  found = tagger(tokens, VOCABULARY)
  texts = [
    VOCABULARY.decode(tokens[begin:end].tolist()) for begin, end in found
  ]
  assert texts == expected
