"""Random numbers of a batch of examples, each a function of its own key.

A counter-based generator, Philox4x32-10 (Salmon et al. 2011, "Parallel random
numbers: as easy as 1, 2, 3"), computed for all examples of a batch at once.
What example i draws depends on (seed, i) and on the order of the calls, never
on the batch that it is in.
"""

import copy

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10
# Calls of a branch, at most: they are numbered apart from its source's calls.
_BRANCH_BITS = 16
# Of the place within a row, beside a key of 33 bits: rows of up to 2^30.
_PLACE_BITS = np.uint64(30)
_PLACES = np.uint64(2**30 - 1)


def philox(
  counter: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
  key: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the four words of each block of Philox4x32-10.

  Args:
    counter: four arrays of one shape (they broadcast) with 32-bit words.
    key: two 32-bit words.

  Returns:
    four uint64 arrays that hold 32-bit words.
  """
  c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
  for i in range(_ROUNDS):
    k0, k1 = (
      np.uint64((word + i * weyl) & 0xFFFFFFFF)
      for word, weyl in zip(key, _WEYL, strict=True)
    )
    first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
    c0, c1, c2, c3 = (
      (second >> _HALF) ^ c1 ^ k0,
      second & _LOW,
      (first >> _HALF) ^ c3 ^ k1,
      first & _LOW,
    )
  return c0, c1, c2, c3


class Draws:
  """The source of randomness of a batch; every call draws anew.

  Attributes:
    batch_size: B, how many examples draw together.
  """

  def __init__(self, seed: int, indices: np.ndarray):
    """Makes the source.

    Args:
      seed: A seed that is not negative; its low 64 bits are the key.
      indices: number of each example, int64 [B], not negative.
    """
    indices = np.asarray(indices, np.uint64).reshape(-1, 1)
    self.batch_size = len(indices)
    self._key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
    self._index_words = indices & _LOW, indices >> _HALF
    self._calls = 0

  def branch(self) -> "Draws":
    """Returns a source of its own, for one call's worth of this source.

    However often the branch is used, what is drawn here stays the same: a loop
    that ends when the last row of a batch is done draws from a branch.

    Raises:
      ValueError: this is a branch itself.
    """
    if self._calls >> _BRANCH_BITS:
      raise ValueError("A branch of draws has no branches.")
    branch = copy.copy(self)
    self._calls += 1
    branch._calls = self._calls << _BRANCH_BITS
    return branch

  def of_rows(self, rows: np.ndarray) -> "Draws":
    """Returns the source of some of the examples, which draw what they do here.

    Args:
      rows: The places of the examples, int64 [n].
    """
    some = copy.copy(self)
    some._index_words = tuple(words[rows] for words in self._index_words)
    some.batch_size = len(rows)
    return some

  def bits(self, number: int) -> np.ndarray:
    """Returns uint32 [B, number], every word equally likely."""
    num_blocks = -(-number // 4)
    blocks = np.arange(num_blocks, dtype=np.uint64)[None, :]
    call = np.uint64(self._calls)
    self._calls += 1
    words = philox((blocks, call, *self._index_words), self._key)
    joined = np.stack(words, axis=-1).reshape(self.batch_size, 4 * num_blocks)
    return joined[:, :number].astype(np.uint32)

  def uniform(self, number: int) -> np.ndarray:
    """Returns float32 [B, number] in [0, 1), in steps of 2^-24."""
    words = self.bits(number) >> np.uint32(8)
    return words.astype(np.float32) * np.float32(2**-24)

  def integers(self, bounds: np.ndarray | int, number: int) -> np.ndarray:
    """Returns int64 [B, number] in [0, bound).

    Args:
      bounds: Bounds from 1 to below 2^31 that broadcast to [B, number]. The
        chance of a value is off by less than bound / 2^32 of itself.
      number: draws per example.
    """
    return _scaled(self.bits(number), bounds)

  def subsets(self, bounds: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Draws a subset of [0, bound) per example, all equally likely.

    Floyd's algorithm (Bentley and Floyd 1987), a step for all rows at once.

    Args:
      bounds: int64 [B].
      sizes: elements of each subset, int64 [B], from 0 to its bound.

    Returns:
      boolean [B, max(bounds)], True where the number is in the subset.
    """
    bounds, sizes = np.asarray(bounds), np.asarray(sizes)
    rows = np.arange(self.batch_size)
    steps = int(sizes.max(initial=0))
    chosen = np.zeros((self.batch_size, int(bounds.max(initial=0))), bool)
    # Rows with small subsets start late, so that all end together. A row's
    # words are its first ones nevertheless: it knows nothing of the others.
    countdown = np.arange(steps, 0, -1)
    last = bounds[:, None] - countdown
    ready = countdown <= sizes[:, None]
    words = np.maximum(sizes[:, None] - countdown, 0)
    bits = np.take_along_axis(self.bits(steps), words, axis=1)
    candidates = _scaled(bits, np.maximum(last + 1, 1))
    if ready.all():
      for step in range(steps):
        candidate = candidates[:, step]
        taken = chosen[rows, candidate]
        chosen[rows, np.where(taken, last[:, step], candidate)] = True
      return chosen
    for step in range(steps):
      use = np.flatnonzero(ready[:, step])
      candidate = candidates[use, step]
      taken = chosen[use, candidate]
      chosen[use, np.where(taken, last[use, step], candidate)] = True
    return chosen

  def permutations(self, lengths: np.ndarray) -> np.ndarray:
    """Draws a permutation of [0, length) per example.

    Args:
      lengths: int64 [B].

    Returns:
      int64 [B, max(lengths)]; from `length` on, a row is the identity.
    """
    lengths = np.asarray(lengths)
    width = int(lengths.max(initial=0))
    places = np.arange(width, dtype=np.uint64)
    # Beyond a row's length keys are larger than any drawn one, and in order.
    keys = np.where(
      places < lengths[:, None], self.bits(width), _LOW + places + np.uint64(1)
    )
    # Key and place in one word: a plain sort is much faster than an argsort.
    keys = (keys << _PLACE_BITS) | places
    keys.sort(axis=1)
    return (keys & _PLACES).astype(np.int64)


def _scaled(bits: np.ndarray, bounds: np.ndarray | int) -> np.ndarray:
  """Maps 32-bit words to int64 in [0, bound)."""
  return ((bits * np.asarray(bounds, np.uint64)) >> _HALF).astype(np.int64)
