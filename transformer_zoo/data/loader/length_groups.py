"""Examples of similar length in one batch, padded to one of a few widths.

Sorting saves padding; a short list of widths saves compilation, since every
shape is a program of its own.
"""

from collections.abc import Sequence

import numpy as np

# Feature -> (what each width is of the one above it, the smallest). The cost of
# a batch is mostly its inputs'; below the smallest, padding costs less than the
# compilation of one more program.
_MENUS = {"inputs": (2 / 3, 64), "targets": (1 / 2, 16)}


def widths(feature: str, length: int) -> tuple[int, ...]:
  """Returns the allowed widths of a feature, ascending, `length` the last.

  All but the last are multiples of 8.

  Args:
    feature: 'inputs' or 'targets'.
    length: the width that holds every example.
  """
  ratio, smallest = _MENUS[feature]
  found = [length]
  while True:
    narrower = -(-int(found[0] * ratio) // 8) * 8
    if not smallest <= narrower < found[0]:
      break
    found.insert(0, narrower)
  return tuple(found)


def group(
  lengths: np.ndarray, limits: Sequence[tuple[int, ...]], batch_size: int
) -> list[tuple[np.ndarray, tuple[int, ...]]]:
  """Divides examples into batches, the longest first.

  Sorted by the width that the first feature needs, then by the length of the
  last: the first is the cost of the encoder, the second tells how many steps
  decoding will take. All batches but the last are full.

  Args:
    lengths: int [examples, features].
    limits: the allowed widths of each feature, ascending.
    batch_size: the most examples of a batch.

  Returns:
    (places of the examples, width of each feature) of each batch. Examples
    that need the same keep their order.
  """
  needed = np.stack(
    [
      np.asarray(allowed)[np.searchsorted(allowed, column)]
      for allowed, column in zip(limits, lengths.T, strict=True)
    ],
    axis=1,
  )
  # The last key is the first to sort by.
  order = np.lexsort((-lengths[:, -1], -needed[:, 0]))
  batches = []
  for start in range(0, len(order), batch_size):
    places = order[start : start + batch_size]
    batches.append((places, tuple(map(int, needed[places].max(axis=0)))))
  return batches
