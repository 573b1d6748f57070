"""Writes the records of examples, and checks their ids."""

from collections.abc import Iterable, Mapping
import pathlib
from typing import Any

from array_record.python import array_record_module
import numpy as np

from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records
from transformer_zoo.errors import UserError

# Each record is alone in its group, as Grain asks.
_WRITER_OPTIONS = "group_size:1"


def write_examples(
  content: Iterable[Mapping[str, Any]],
  path: pathlib.Path,
  split: str,
  task: manifest.PreparedTask,
) -> dict[str, np.ndarray]:
  """Writes a record for each example; returns their lengths."""
  writer = array_record_module.ArrayRecordWriter(str(path), _WRITER_OPTIONS)
  lengths = []
  for number, example in enumerate(content):
    tokens = {
      feature: checked(example, feature, split, task)
      for feature in task.features
    }
    text = {
      key: records.readable(
        value, f"field {key!r} of split {split!r}, example {number}", task.name
      )
      for key, value in example.items()
      if key not in task.features
    }
    lengths.append([len(ids) for ids in tokens.values()])
    writer.write(records.encode_example(tokens, text))
  writer.close()
  lengths = np.array(lengths, np.int32).reshape(-1, len(task.features))
  return {"lengths": lengths}


def checked(
  example: Mapping[str, Any],
  feature: str,
  split: str,
  task: manifest.PreparedTask,
) -> np.ndarray:
  """Returns the ids of a feature as int32 [length], all in the vocabulary."""
  if feature not in example:
    raise UserError(
      f"Task {task.name!r} makes no feature {feature!r} in split {split!r}."
    )
  ids = np.asarray(example[feature])
  if ids.ndim != 1 or ids.dtype.kind != "i":
    raise UserError(
      f"Task {task.name!r} makes {feature!r} of shape {ids.shape} and type "
      f"{ids.dtype} in split {split!r}; one row of integer ids is needed."
    )
  check_ids(ids, feature, split, task)
  return ids.astype(np.int32)


def check_ids(
  ids: np.ndarray, feature: str, split: str, task: manifest.PreparedTask
) -> None:
  """Raises UserError where an id is outside the vocabulary."""
  # Unsigned, a negative id is a large one.
  size = task.vocabulary.size
  if ids.size and ids.view(f"u{ids.itemsize}").max() >= size:
    wrong = ids[(ids < 0) | (ids >= size)][0]
    raise UserError(
      f"Task {task.name!r} has the id {wrong} in {feature!r} of split {split!r}"
      f", outside its vocabulary of {size} ids ({task.vocabulary.path})."
    )
