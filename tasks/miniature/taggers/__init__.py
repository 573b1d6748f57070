"""Taggers of the miniature world for masks of spans (`TaggedSpans.tagger`).

They stand in a folder of their own because the data of the suite is marked by
the code beside `tasks/miniature/source.py`.
"""

import functools
from typing import Any

import gin
import numpy as np

from tasks.miniature.world import lexicon
from tasks.miniature.world import world

_NAMES = ("woman", "man", "town")
_DETERMINERS = frozenset(("a", "an", "the"))
_LONGEST = 4  # Words of a noun phrase.


@gin.register(module="miniature_taggers")
def entities(tokens: np.ndarray, vocabulary: Any) -> list[tuple[int, int]]:
  """Returns the names of people and towns, as (first, behind the last)."""
  names = _words_of(_NAMES)
  return [
    (begin, end)
    for word, begin, end in _words(tokens, vocabulary)
    if word in names
  ]


@gin.register(module="miniature_taggers")
def noun_phrases(tokens: np.ndarray, vocabulary: Any) -> list[tuple[int, int]]:
  """Returns names, and nouns from their determiner on."""
  names, nouns = _words_of(_NAMES), _words_of(tuple(lexicon.OPEN))
  found, first, number = [], 0, _LONGEST
  for word, begin, end in _words(tokens, vocabulary):
    number += 1
    if word in _DETERMINERS:
      first, number = begin, 1
    elif word in names:
      found.append((begin, end))
    elif word in nouns and number <= _LONGEST:
      found.append((first, end))
      number = _LONGEST
  return found


def _words(tokens, vocabulary) -> list[tuple[str, int, int]]:
  """The words of a text, each with its first token and the one behind it."""
  starts = np.flatnonzero(vocabulary.word_starts[tokens]).tolist()
  return [
    (_text(vocabulary, tuple(tokens[begin:end].tolist())), begin, end)
    for begin, end in zip(starts, [*starts[1:], len(tokens)], strict=True)
  ]


@functools.lru_cache(maxsize=1 << 16)
def _text(vocabulary, ids: tuple[int, ...]) -> str:
  return vocabulary.decode(ids).strip(" .,")


@functools.cache
def _words_of(kinds: tuple[str, ...]) -> frozenset[str]:
  return frozenset(
    word
    for kind in kinds
    for concept in world.concepts(lexicon.OPEN[kind])
    for word in concept
  )
