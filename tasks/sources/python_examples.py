"""Examples made in Python as a dataset, many at a time.

`tf.data.Dataset.from_generator` takes 0.2 ms for each thing it is given, so it
is given a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import itertools
from typing import Any

import numpy as np
import tensorflow as tf

_BATCH = 256
_MOST_CHARACTERS = 1 << 22  # whole books come one at a time
_LENGTHS = "/lengths"


def to_dataset(
  examples: Callable[[], Iterable[Mapping[str, Any]]],
  signature: Mapping[str, tf.TensorSpec],
) -> tf.data.Dataset:
  """Returns a dataset of examples.

  Args:
    examples: gives them anew at each call.
    signature: The tensor specification of an example: scalars, and lists of
      shape [None].
  """
  lists = [name for name, spec in signature.items() if spec.shape.rank]

  def batches():
    iterator = iter(examples())
    while batch := _take(iterator):
      columns = {}
      for name, spec in signature.items():
        values = [example[name] for example in batch]
        if name in lists:
          columns[name + _LENGTHS] = np.array([len(v) for v in values])
          values = [value for row in values for value in row]
        columns[name] = _to_array(values, spec.dtype)
      yield columns

  flat = {
    name: tf.TensorSpec((None,), spec.dtype) for name, spec in signature.items()
  }
  for name in lists:
    flat[name + _LENGTHS] = tf.TensorSpec((None,), tf.int64)

  def with_lists(columns):
    for name in lists:
      columns[name] = tf.RaggedTensor.from_row_lengths(
        columns[name], columns.pop(name + _LENGTHS)
      )
    return columns

  dataset = tf.data.Dataset.from_generator(batches, output_signature=flat)
  return dataset.map(with_lists).unbatch()


def _take(iterator: Iterator[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
  """Returns the next examples; none at the end."""
  batch, size = [], 0
  for example in itertools.islice(iterator, _BATCH):
    batch.append(example)
    size += sum(len(v) for v in example.values() if isinstance(v, str))
    if size > _MOST_CHARACTERS:
      break
  return batch


def _to_array(values: list[Any], dtype: tf.DType) -> np.ndarray:
  if dtype != tf.string:
    return np.array(values, dtype.as_numpy_dtype)
  encoded = [v.encode("utf-8") if isinstance(v, str) else v for v in values]
  return np.array(encoded, dtype=object)
