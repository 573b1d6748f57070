"""Rows in memory with the features of a TFDS dataset that is not on disk."""

from collections.abc import Mapping
import functools
import tempfile
from typing import Any

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds


def text_of(task: str, *rows: Mapping[str, Any]) -> list[dict[str, Any]]:
  """Returns what a task makes of rows, before tokenisation.

  Args:
    task: a registered task over a TFDS dataset.
    rows: with every feature that the installed builder of the dataset and
      version gives.
  """
  dataset, given = _dataset(task)
  given[:] = rows
  return list(dataset.as_numpy_iterator())


@functools.cache
def _dataset(task: str) -> tuple[tf.data.Dataset, list[Mapping[str, Any]]]:
  """Returns what a task makes of the rows that the list has when it is read."""
  task = seqio.TaskRegistry.get(task)
  spec = features(task).get_tensor_spec()
  rows = []
  dataset = tf.data.Dataset.from_generator(
    lambda: (_fill(row, spec) for row in rows), output_signature=spec
  )
  for step in task.preprocessors:
    if step is seqio.preprocessors.tokenize:
      break
    # Translating the steps' Python takes longer than all else. Here they prove
    # to need no translation.
    dataset = tf.autograph.experimental.do_not_convert(step)(dataset)
  return dataset, rows


def texts_of(task: str, *rows: Mapping[str, Any]) -> list[tuple[str, str]]:
  """Returns inputs and targets of the examples that a task makes of rows."""
  return [
    (example["inputs"].decode(), example["targets"].decode())
    for example in text_of(task, *rows)
  ]


def features(task: seqio.Task) -> tfds.features.FeaturesDict:
  """Returns the features of a task's dataset, of the version it names."""
  return _features(task.source._tfds_name)


@functools.cache
def _features(name: str) -> tfds.features.FeaturesDict:
  with tempfile.TemporaryDirectory() as empty:
    return tfds.builder(name, data_dir=empty).info.features


def _fill(value: Any, spec: Any) -> Any:
  """Returns a value as TFDS would, empty where a feature is not given."""
  if isinstance(spec, dict):
    value = value or {}
    assert set(value) <= set(spec), (set(value), set(spec))
    return {name: _fill(value.get(name), spec[name]) for name in spec}
  if isinstance(spec, tf.RaggedTensorSpec):
    return tf.ragged.constant(value, spec.dtype, spec.ragged_rank)
  if value is not None:
    return value
  empty = "" if spec.dtype == tf.string else 0
  return [] if spec.shape.rank else empty
