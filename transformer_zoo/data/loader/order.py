"""The order of examples: shuffling and mixing as pure index arithmetic.

Nothing here has state: the example at any place of a run is computed from the
seed and the place, for whole arrays of places at once.
"""

from collections.abc import Sequence

import numpy as np

from transformer_zoo.errors import UserError

# The longest cycle of a mixture: rates are met to one in a million.
_LONGEST_CYCLE = 1 << 20
_ROUNDS = 6


class MixtureOrder:
  """Deals the places of a mixture to its tasks at their rates.

  One cycle is a table that holds task t `counts[t]` times, evenly spread (the
  j-th of n at (j + u) / n of the cycle, with a phase u per task drawn from the
  seed), so that every stretch of the mixture has each task's share to within
  about one example. Cycle after cycle repeats the table with later examples.

  Attributes:
    counts: int64 [tasks], how often each task occurs in a cycle.
  """

  def __init__(self, rates: Sequence[float], seed: int):
    """Builds the table.

    Args:
      rates: share of each task, of any positive sum. Whole numbers with a sum
        up to 2^20 are met exactly, others to one part in 2^20.
      seed: The seed of the phases.

    Raises:
      UserError: a rate is negative or none is positive.
    """
    self.counts = _whole_rates(np.asarray(rates, np.float64))
    phases = np.random.default_rng(seed).random(len(rates))
    places = [
      (np.arange(n) + u) / n
      for n, u in zip(self.counts, phases, strict=True)
      if n
    ]
    order = np.argsort(np.concatenate(places), kind="stable")
    tasks = np.repeat(np.arange(len(rates), dtype=np.int32), self.counts)
    ranks = np.concatenate([np.arange(n) for n in self.counts])
    self._tasks = tasks[order]
    self._ranks = ranks[order]

  def __call__(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (task, how many of this task came before), int64 as `places`."""
    cycle, slot = np.divmod(places, len(self._tasks))
    tasks = self._tasks[slot]
    return tasks, cycle * self.counts[tasks] + self._ranks[slot]

  def examples_before(self, places: int) -> np.ndarray:
    """Returns how many of the first `places` each task has, int64 [tasks]."""
    cycles, rest = divmod(places, len(self._tasks))
    part = np.bincount(self._tasks[:rest], minlength=len(self.counts))
    return cycles * self.counts + part


class LaterOrder:
  """The places from one on, dealt to the same tasks at other rates.

  Tasks go on in their epochs: no example comes again before its turn.
  """

  def __init__(
    self, earlier: "MixtureOrder | LaterOrder", first: int, later: MixtureOrder
  ):
    """Joins two orders.

    Args:
      earlier: The order of the places before.
      first: The first place of the later order.
      later: The later order, whose places are counted from there.
    """
    self._first, self._later = first, later
    self._before = earlier.examples_before(first)

  def __call__(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As of `MixtureOrder`, of places from the first one on."""
    tasks, ranks = self._later(np.maximum(places - self._first, 0))
    return tasks, self._before[tasks] + ranks

  def examples_before(self, places: int) -> np.ndarray:
    """As of `MixtureOrder`, of places from the first one on."""
    return self._before + self._later.examples_before(places - self._first)


def shuffled(
  ranks: np.ndarray,
  num_examples: np.ndarray | int,
  seed: int,
  tasks: np.ndarray | int,
) -> np.ndarray:
  """Returns which example of a task has the given ranks in training.

  Ranks run through epochs of `num_examples`; each epoch is a permutation of its
  own, keyed by (seed, task, epoch): a Feistel network of six rounds on the next
  power of four, walked until the value is inside. It needs no table, whatever
  the size of the data.

  Args:
    ranks: int64 [n], not negative.
    num_examples: The number of examples of the task of each rank, int64 [n], or
      of all.
    seed: The seed of the run.
    tasks: number of the task of each rank in the mixture, or of all.

  Returns:
    int64 [n], in [0, num_examples).
  """
  num_examples = np.broadcast_to(np.int64(num_examples), ranks.shape)
  epoch, position = np.divmod(ranks, num_examples)
  # frexp's exponent is the bit length of a whole number.
  bits = np.frexp(num_examples - 1)[1]
  half = np.maximum(1, (bits + 1) // 2).astype(np.uint64)
  key = _mix(np.array([seed], np.uint64))
  key = _mix(key + np.asarray(tasks).astype(np.uint64))
  key = _mix(key + epoch.astype(np.uint64))
  value = _walk(position.astype(np.uint64), half, key)
  outside = np.flatnonzero(value >= num_examples)
  while outside.size:
    value[outside] = _walk(value[outside], half[outside], key[outside])
    outside = outside[value[outside] >= num_examples[outside]]
  return value.astype(np.int64)


def _walk(value: np.ndarray, half: np.ndarray, key: np.ndarray) -> np.ndarray:
  """Permutes the numbers of `2 * half` bits: all arguments uint64 [n]."""
  mask = (np.uint64(1) << half) - np.uint64(1)
  left, right = value >> half, value & mask
  for i in range(_ROUNDS):
    hashed = _mix(key + right + np.uint64(i << 48))
    left, right = right, left ^ (hashed & mask)
  return left << half | right


def _mix(x: np.ndarray) -> np.ndarray:
  """SplitMix64 (Steele et al. 2014): a hash of 64 bits, wrapping on purpose."""
  x = x + np.uint64(0x9E3779B97F4A7C15)
  x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
  return x ^ (x >> np.uint64(31))


def _whole_rates(rates: np.ndarray) -> np.ndarray:
  """Returns small whole numbers in the proportion of `rates`, int64."""
  if not np.isfinite(rates).all() or (rates < 0).any() or not (rates > 0).any():
    raise UserError(
      f"The rates {rates.tolist()} cannot be mixed: none may be negative, and "
      "one must be positive."
    )
  whole = np.rint(rates)
  if (whole == rates).all() and rates.sum() <= _LONGEST_CYCLE:
    counts = whole.astype(np.int64)
  else:
    # Largest remainders, and at least one place for a positive rate.
    exact = rates / rates.sum() * _LONGEST_CYCLE
    counts = np.floor(exact).astype(np.int64)
    short = _LONGEST_CYCLE - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
    counts = np.where(rates > 0, np.maximum(counts, 1), 0)
  return counts // np.gcd.reduce(counts)
