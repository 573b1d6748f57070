"""Texts as documents of sentences, whose tokens tell their places."""

from collections.abc import Sequence

import numpy as np

from tests.corruption import vocabulary
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.sentences.documents import Sentences

FIRST = vocabulary.FULL_STOP + 1
# An empty text cannot be read past its end, and neither can this one.
ODD = [[1], [30], [1] * 40, [3, 3], [40, 2], [7], [2, 90, 2]]


def text_of(documents: Sequence[Sequence[int]]) -> Sentences:
  """Returns a text; the token at place p is FIRST + p.

  Args:
    documents: the lengths of the sentences of each.
  """
  lengths = np.array([n for document in documents for n in document], np.int64)
  counts = [len(document) for document in documents]
  ends = np.cumsum(lengths)

  def read(starts, sizes):
    assert starts.min(initial=0) >= 0
    assert (starts + sizes).max(initial=0) <= ends[-1]
    return Ragged.of(
      [FIRST + np.arange(s, s + n) for s, n in zip(starts, sizes, strict=True)]
    )

  return Sentences(ends, np.cumsum([0, *counts]), read)


def draw_documents(seed: int, number: int = 60) -> list[list[int]]:
  """Returns documents of 1 to 12 sentences of 1 to 19 tokens, and odd ones."""
  rng = np.random.default_rng(seed)
  drawn = [
    rng.integers(1, 20, rng.integers(1, 13)).tolist() for _ in range(number)
  ]
  return drawn[: number // 2] + ODD + drawn[number // 2 :]


def vocabulary_of(text: Sentences, **changed):
  """Returns BERT's kind of vocabulary with an id for every place of a text."""
  size = FIRST + int(text.ends[-1])
  changed = {"size": size, "word_starts": np.ones(size, bool), **changed}
  return vocabulary.bert(**changed)


def places_of(ids: np.ndarray) -> np.ndarray:
  """Returns the places that ids tell; special ones are left out."""
  return ids[ids >= FIRST] - FIRST
