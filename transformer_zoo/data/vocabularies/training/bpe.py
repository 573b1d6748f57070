"""Byte-pair encoding learned from counted words (Sennrich et al. 2016, 3.2).

Among pairs that are equally frequent the one seen first is merged, in the order
of the words and from left to right: one text gives one list of merges. The
`tokenizers` library learns the same merges but for such ties, which its
WordPiece decides anew in every run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import heapq
import itertools

Pair = tuple[str, str]


def learn(
  words: Mapping[Sequence[str], int],
  *,
  join: Callable[[str, str], str] = str.__add__,
  least: int = 2,
) -> Iterator[tuple[Pair, str]]:
  """Yields merges, the most frequent pair of neighbours first.

  Args:
    words: symbols of each word, and how often it was seen.
    join: makes the symbol of a pair.
    least: a pair seen less often is not merged.

  Yields:
    The pair and its symbol, as long as there are pairs.
  """
  learner = _Learner(words, join)
  while (pair := learner.most_frequent(least)) is not None:
    yield pair, join(*pair)
    learner.merge(pair)


class _Learner:
  """Words as they are after the merges so far.

  A pair becomes rarer without notice and more frequent with a new entry in the
  heap, so that an entry is never behind its place; one that is before it goes
  back (`most_frequent`). The words of a pair are kept in the same way.
  """

  def __init__(
    self,
    words: Mapping[Sequence[str], int],
    join: Callable[[str, str], str],
  ):
    self._words = [list(word) for word in words]
    self._counts = list(words.values())
    self._join = join
    self._frequencies: dict[Pair, int] = {}
    self._places: dict[Pair, list[int]] = {}  # heaps of indices of words
    self._heap = []
    for index, word in enumerate(self._words):
      for pair in itertools.pairwise(word):
        self._count(pair, self._counts[index])
        self._note(pair, index)
    for pair in self._frequencies:
      self._push(pair)

  def most_frequent(self, least: int) -> Pair | None:
    """Returns the most frequent pair, None if none is seen `least` times."""
    while self._heap:
      *key, pair = heapq.heappop(self._heap)
      if self._frequencies[pair] < least:
        continue
      if tuple(key) == self._key(pair):
        return pair
      self._push(pair)
    return None

  def merge(self, pair: Pair) -> None:
    """Makes one symbol of every occurrence of `pair`."""
    joined = self._join(*pair)
    gained = {}  # in the order of the words, which a set would lose
    for index in sorted(set(self._places.pop(pair))):
      before = self._words[index]
      after = _merged(before, pair, joined)
      if len(after) == len(before):
        continue
      self._words[index] = after
      count = self._counts[index]
      for old in itertools.pairwise(before):
        self._frequencies[old] -= count
      for new in itertools.pairwise(after):
        self._count(new, count)
        if joined in new:
          self._note(new, index)
          gained[new] = None
    for new in gained:
      self._push(new)

  def _count(self, pair: Pair, change: int) -> None:
    self._frequencies[pair] = self._frequencies.get(pair, 0) + change

  def _note(self, pair: Pair, index: int) -> None:
    heapq.heappush(self._places.setdefault(pair, []), index)

  def _push(self, pair: Pair) -> None:
    heapq.heappush(self._heap, (*self._key(pair), pair))

  def _key(self, pair: Pair) -> tuple[int, int, int]:
    """Returns what pairs are ordered by: frequency, word, place within it."""
    heap = self._places[pair]
    while True:
      word = self._words[heap[0]]
      offset = 0
      for first, second in itertools.pairwise(word):
        if (first, second) == pair:
          return -self._frequencies[pair], heap[0], offset
        offset += len(first)
      heapq.heappop(heap)


def _merged(word: list[str], pair: Pair, joined: str) -> list[str]:
  first, second = pair
  found = []
  position, last = 0, len(word) - 1
  while position <= last:
    symbol = word[position]
    if symbol == first and position < last and word[position + 1] == second:
      found.append(joined)
      position += 2
    else:
      found.append(symbol)
      position += 1
  return found
