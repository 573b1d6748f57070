"""Packing: several short examples in one row, planned from lengths alone.

The mixture is cut into windows of `WINDOW` examples, each packed by itself, so
the plan of a window is a pure function of its lengths. A row number is turned
into examples by counting the rows of the windows before; windows are packed
many at a time, numpy-vectorised over windows, because a resumed run has to
count from the start: 0.17 us per example, and about 0.3 us for shuffling and
mixing, so 10 s for 20 million examples.
"""

import collections
from collections.abc import Callable, Sequence
import dataclasses
import threading

import numpy as np

WINDOW = 2048
_OPEN_ROWS = 32
_GROUP = 128  # windows packed together; changes speed and nothing else
_NONE_FITS = np.int32(1 << 30)


def pack(
  lengths: np.ndarray, capacity: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
  """Packs windows of examples, best fit among a bounded number of open rows.

  An example goes to the open row with the least room that has room for all its
  features; if there is none, the fullest open row is closed for a new one.
  Examples keep their order within a row.

  Args:
    lengths: int [windows, examples, features], none above `capacity`.
    capacity: tokens of a row, per feature; together under 2^25.

  Returns:
    (row of each example in its window, int32 [windows, examples];
     rows of each window, int32 [windows])
  """
  num_windows, num_examples, num_features = lengths.shape
  by_place = np.ascontiguousarray(lengths.transpose(1, 2, 0), np.int32)
  capacity = np.asarray(capacity, np.int32)
  windows = np.arange(num_windows)
  slots = np.arange(_OPEN_ROWS, dtype=np.int32)[:, None]
  room = np.empty((num_features, _OPEN_ROWS, num_windows), np.int32)
  room[:] = capacity[:, None, None]
  # Room and slot in one number, so that one minimum finds both.
  score = np.repeat(capacity.sum() * _OPEN_ROWS + slots, num_windows, axis=1)
  score = score.astype(np.int32)
  open_row = np.full((_OPEN_ROWS, num_windows), -1, np.int32)
  num_rows = np.zeros(num_windows, np.int32)
  row_of = np.empty((num_examples, num_windows), np.int32)
  for place in range(num_examples):
    length = by_place[place]
    full = room[0] < length[0]
    for feature in range(1, num_features):
      full |= room[feature] < length[feature]
    best = np.min(score + full * _NONE_FITS, axis=0)
    slot = best % _OPEN_ROWS
    row = open_row[slot, windows]
    fresh = (best >= _NONE_FITS) | (row < 0)
    left = np.where(fresh, capacity[:, None], room[:, slot, windows]) - length
    room[:, slot, windows] = left
    score[slot, windows] = left.sum(axis=0) * _OPEN_ROWS + slot
    row = np.where(fresh, num_rows, row)
    open_row[slot, windows] = row
    num_rows += fresh
    row_of[place] = row
  return np.ascontiguousarray(row_of.T), num_rows


def _no_places() -> np.ndarray:
  return np.zeros(0, np.int64)


@dataclasses.dataclass(frozen=True)
class Used:
  """The places of a mixture that some batches consist of.

  Attributes:
    first: The first place of a range, all of which are used.
    end: The end of the range, exclusive.
    besides: Further places that are used, int64.
    except_for: The places of that range that are left out, int64.
    following: The first place behind all windows that were begun.
  """

  first: int
  end: int
  following: int
  besides: np.ndarray = dataclasses.field(default_factory=_no_places)
  except_for: np.ndarray = dataclasses.field(default_factory=_no_places)


class OneEach:
  """Rows of one example each: row r has the place `first_place + r`."""

  def __init__(self, first_place: int = 0):
    self._first_place = first_place

  def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `RowPlan.__call__`."""
    return self._first_place + rows, rows - rows[0]

  def used(self, rows: int) -> Used:
    """As `RowPlan.used`."""
    end = self._first_place + rows
    return Used(self._first_place, end, end)


class RowPlan:
  """Finds the examples of any packed row of an endless mixture."""

  def __init__(
    self,
    lengths: Callable[[np.ndarray], np.ndarray],
    capacity: Sequence[int],
    first_place: int = 0,
  ):
    """Prepares an empty plan.

    Args:
      lengths: A function from places in the mixture, int64 [n], to trimmed
        lengths, int [n, features].
      capacity: tokens of a row, per feature.
      first_place: The place at which the first window begins.
    """
    self._lengths = lengths
    self._capacity = capacity
    self._first_place = first_place
    self._first_rows = [0]  # of each group counted so far, and the next one
    self._groups = collections.OrderedDict()
    self._lock = threading.Lock()

  def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples of `rows`, consecutive and ascending.

    Args:
      rows: int64 [n], consecutive row numbers.

    Returns:
      (places in the mixture, int64 [examples]; for each the index into `rows`,
       int64 [examples], ascending)
    """
    places, owners = [], []
    row, last = int(rows[0]), int(rows[-1])
    with self._lock:
      while row <= last:
        group = self._find(row)
        first = self._first_rows[group]
        members, starts = self._group(group)
        stop = min(last + 1, self._first_rows[group + 1])
        bounds = starts[row - first : stop - first + 1]
        places.append(members[bounds[0] : bounds[-1]])
        owners.append(
          np.repeat(np.arange(row, stop) - rows[0], np.diff(bounds))
        )
        row = stop
    return np.concatenate(places), np.concatenate(owners)

  def used(self, rows: int) -> Used:
    """Returns which places are in the first `rows` rows."""
    if not rows:
      first = self._first_place
      return Used(first, first, first)
    with self._lock:
      group = self._find(rows - 1)
      members, starts = self._group(group)
      taken = members[: starts[rows - self._first_rows[group]]]
    last = int(taken[-1]) - self._first_place
    begin = self._first_place + last // WINDOW * WINDOW
    return Used(self._first_place, begin, begin + WINDOW, taken[taken >= begin])

  def _find(self, row: int) -> int:
    """Returns the group that has the row, after counting up to it."""
    while row >= self._first_rows[-1]:
      self._group(len(self._first_rows) - 1)
    return int(np.searchsorted(self._first_rows, row, side="right")) - 1

  def _group(self, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (examples in order of rows, where each row starts among them)."""
    if group in self._groups:
      return self._groups[group]
    first = self._first_place + group * _GROUP * WINDOW
    places = np.arange(first, first + _GROUP * WINDOW)
    lengths = self._lengths(places).reshape(_GROUP, WINDOW, -1)
    row_of, num_rows = pack(lengths, self._capacity)
    ends = np.cumsum(num_rows, dtype=np.int64)
    row_of = (row_of + (ends - num_rows)[:, None]).ravel()
    members = places[np.argsort(row_of, kind="stable")]
    counts = np.bincount(row_of, minlength=ends[-1])
    starts = np.concatenate([[0], np.cumsum(counts)])
    if group == len(self._first_rows) - 1:
      self._first_rows.append(self._first_rows[-1] + int(ends[-1]))
    self._groups[group] = members, starts
    # Prefetching threads can be on both sides of a border, never further.
    while len(self._groups) > 2:
      self._groups.popitem(last=False)
    return self._groups[group]
