"""Length bucketing: batches of examples of similar lengths.

An example goes to the first bucket that holds it. Each bucket hands out its
examples in the order of the mixture, a batch whenever it has enough; what is
left waits for the next window. So every example comes once an epoch, whatever
the sizes, and the batch of a step is a pure function of the lengths before it.
Within a window the batches of all buckets are shuffled.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import threading
from typing import Any

import numpy as np

from transformer_zoo.data.loader import order
from transformer_zoo.data.loader.packing import Used
from transformer_zoo.data.loader.stages import Bucket
from transformer_zoo.errors import UserError

# Of the largest batch: few enough that small tasks are not mixed over many
# epochs, enough to shuffle.
_BATCHES_PER_WINDOW = 8


def buckets(
  given: Sequence[Mapping[str, int]],
  lengths: Mapping[str, int],
  batch_size: int,
) -> tuple[Bucket, ...]:
  """Returns the buckets of a run, the last for all that fit no other.

  Args:
    given: The lengths and the batch size of each bucket, `{'inputs': 64,
      'targets': 16, 'batch_size': 512}`, in the order in which an example looks
      for its bucket.
    lengths: The lengths of the last bucket.
    batch_size: The batch size of the last bucket.

  Raises:
    UserError: a bucket lacks something, is wider than `lengths` or comes too
      late to get an example.
  """
  result = []
  for bucket in given:
    names = {*lengths, "batch_size"}
    if not isinstance(bucket, Mapping) or bucket.keys() != names:
      raise UserError(
        f"The length bucket {bucket!r} must give "
        f"{', '.join(map(repr, [*lengths, 'batch_size']))} and nothing else."
      )
    _check_sizes(bucket, lengths)
    sizes = {name: bucket[name] for name in lengths}
    for before in result:
      if all(sizes[name] <= before.lengths[name] for name in lengths):
        raise UserError(
          f"The length bucket {dict(bucket)} gets no example: all that fit it "
          f"are in the one of {dict(before.lengths)} before it; order the "
          "buckets from short to long."
        )
    result.append(Bucket(sizes, bucket["batch_size"]))
  return (*result, Bucket(dict(lengths), batch_size))


def _check_sizes(bucket: Mapping[str, Any], lengths: Mapping[str, int]) -> None:
  for name, size in bucket.items():
    most = lengths.get(name)
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not whole or size < 1 or (most is not None and size > most):
      raise UserError(
        f"The length bucket {dict(bucket)} has {name!r} {size!r}; it must be "
        "a whole number of 1 or more"
        + (f", at most {most} as the rows of the run." if most else ".")
      )


@dataclasses.dataclass(frozen=True)
class _Window:
  """The batches that become full in a window.

  Attributes:
    number: The number of the window.
    first_step: The step of the window's first batch.
    batches: (bucket, places), in the order of the steps.
    came: The places that waited in each bucket when the window began.
    waiting: The places that wait in each bucket when the window ends.
  """

  number: int
  first_step: int
  batches: list[tuple[int, np.ndarray]]
  came: list[np.ndarray]
  waiting: list[np.ndarray]

  @property
  def following_step(self) -> int:
    return self.first_step + len(self.batches)


class BucketPlan:
  """Finds the batch of any step of an endless mixture."""

  def __init__(
    self,
    lengths: Callable[[np.ndarray], np.ndarray],
    buckets: Sequence[Bucket],
    seed: int,
    features: Sequence[str],
  ):
    """Prepares an empty plan.

    Args:
      lengths: A function from places in the mixture, int64 [n], to trimmed
        lengths, int [n, features].
      buckets: The buckets, as the function `buckets` returns them.
      seed: The seed of the order of the batches.
      features: The features of `lengths`; a bucket may have further ones.
    """
    self._lengths = lengths
    self._buckets = buckets
    self._limits = np.array(
      [[bucket.lengths[name] for name in features] for bucket in buckets]
    )
    self._size = _BATCHES_PER_WINDOW * max(b.batch_size for b in buckets)
    self._seed = seed
    self._lock = threading.Lock()
    self._windows = self._start()

  def __call__(self, step: int) -> tuple[Bucket, np.ndarray]:
    """Returns the bucket of a step and its places, int64 [batch size].

    Steps are asked for in about their order: one that is more than a window
    behind makes the plan count from the start again.
    """
    window = self._find(step)
    bucket, places = window.batches[step - window.first_step]
    return self._buckets[bucket], places

  def used(self, steps: int) -> Used:
    """Returns which places are in the batches of the first `steps` steps."""
    if not steps:
      return Used(0, 0, 0)
    window = self._find(steps - 1)
    batches = window.batches[: steps - window.first_step]
    first = window.number * self._size
    return Used(
      0,
      first,
      first + self._size,
      besides=np.concatenate([places for _, places in batches]),
      except_for=np.concatenate(window.came),
    )

  def _start(self) -> list[_Window]:
    empty = [np.zeros(0, np.int64) for _ in self._buckets]
    return [_Window(-1, 0, [], empty, empty)]

  def _find(self, step: int) -> _Window:
    """Returns the window that has the step."""
    with self._lock:
      if step < self._windows[0].first_step:
        self._windows = self._start()
      while step >= self._windows[-1].following_step:
        last = self._windows[-1]
        self._windows = [last, self._behind(last)]
      return next(w for w in reversed(self._windows) if step >= w.first_step)

  def _behind(self, last: _Window) -> _Window:
    """Returns the window that follows the `last` one."""
    number = last.number + 1
    places = np.arange(number * self._size, (number + 1) * self._size)
    fits = (self._lengths(places)[:, None] <= self._limits).all(axis=2)
    bucket_of = fits.argmax(axis=1)
    batches, waiting = [], []
    for index, bucket in enumerate(self._buckets):
      mine = np.concatenate([last.waiting[index], places[bucket_of == index]])
      full = len(mine) // bucket.batch_size * bucket.batch_size
      batches += [
        (index, some) for some in mine[:full].reshape(-1, bucket.batch_size)
      ]
      waiting.append(mine[full:].copy())
    # As an epoch of its own for each window.
    ranks = number * len(batches) + np.arange(len(batches))
    shuffled = order.shuffled(ranks, max(len(batches), 1), self._seed, 0)
    batches = [batches[i] for i in shuffled]
    return _Window(number, last.following_step, batches, last.waiting, waiting)
