"""The records of examples: how they are encoded, decoded and read."""

from collections.abc import Mapping, Sequence
from typing import Any

import grain
import msgpack
import numpy as np

from transformer_zoo.data.storage import integrity
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

# Each record is alone in its group, as Grain asks.
WRITER_OPTIONS = "group_size:1"


def encode_example(
  tokens: dict[str, np.ndarray], text: dict[str, Any]
) -> bytes:
  """Returns the record of an example: int32 ids per feature, and the rest."""
  record = {k: v.astype("<i4").tobytes() for k, v in tokens.items()}
  return msgpack.packb(record | {"text": text})


def decode_example(
  record: bytes,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
  """Inverse of `encode_example`."""
  content = msgpack.unpackb(record)
  text = content.pop("text")
  return {k: np.frombuffer(v, "<i4") for k, v in content.items()}, text


def to_json(value: Any) -> Any:
  """Returns a numpy or ragged value as what JSON knows."""
  if hasattr(value, "to_list"):  # a ragged tensor's value
    value = value.to_list()
  elif isinstance(value, (np.ndarray, np.generic)):
    if value.dtype.kind in "biuf":  # as they are; answers have many of them
      return value.tolist()
    value = value.tolist()
  if isinstance(value, bytes):
    return value.decode("utf-8")
  if isinstance(value, (list, tuple)):
    return [to_json(item) for item in value]
  if isinstance(value, Mapping):
    return {str(k): to_json(v) for k, v in value.items()}
  return value


def question_of(example: Mapping[str, Any]) -> tuple[int, ...] | None:
  """Returns the question whose choice an example ranks; None if it ranks none.

  `idx` of such an example has the question and the choice.
  """
  if "is_correct" not in example or "idx" not in example:
    return None
  return tuple(np.ravel(example["idx"]).tolist()[:-1])


def readable(value: Any, where: str, task: str) -> Any:
  """Returns `to_json(value)`.

  Args:
    value: numpy or ragged.
    where: place of it, for the error.
    task: name of its task.

  Raises:
    UserError: it has text that is not UTF-8.
  """
  try:
    return to_json(value)
  except UnicodeDecodeError as error:
    raise UserError(
      f"Task {task!r} has text that is not UTF-8 in {where} (byte "
      f"{error.start}: {error.object[error.start : error.end]!r}); mend the "
      "data."
    ) from None


class ExampleRecords:
  """Random access to the examples of a split, over all its shards."""

  def __init__(self, task: manifest.PreparedTask, split: str):
    """Opens the shards.

    Raises:
      UserError: a shard is missing or damaged.
    """
    self._paths = task.record_files(split)
    counts = [shard.num_examples for shard in task.split(split).shards]
    self._ends = np.cumsum(counts)
    try:
      self._records = grain.sources.ArrayRecordDataSource(self._paths)
      num_records = len(self._records)
    except RuntimeError:
      num_records = sum(map(_count, self._paths))  # names the damaged one
    if num_records != self._ends[-1]:
      raise UserError(
        f"The prepared files of split {split!r} of task {task.name!r} have "
        f"{num_records} records, their manifest says {self._ends[-1]}; run "
        "`zoo prepare` again."
      )

  def __len__(self) -> int:
    return int(self._ends[-1])

  def read(
    self, indices: Sequence[int]
  ) -> list[tuple[dict[str, np.ndarray], dict[str, Any]]]:
    """Returns the examples of some indices, decoded.

    Raises:
      UserError: one is damaged; says in which shard and where.
    """
    indices = np.asarray(indices).tolist()
    try:
      found = self._records.__getitems__(indices)
    except RuntimeError:
      found = [self._read_one(index) for index in indices]
    return [
      self._decode(index, record)
      for index, record in zip(indices, found, strict=True)
    ]

  def _read_one(self, index: int) -> bytes:
    try:
      return self._records[index]
    except RuntimeError as error:
      raise _damaged(self._path(index), error) from None

  def _decode(
    self, index: int, record: bytes
  ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    try:
      return decode_example(record)
    except ValueError:  # where the file has been cut, a record comes empty
      raise integrity.damaged(
        self._path(index),
        f"record {index} of the split ({len(record)} bytes) is no example",
      ) from None

  def _path(self, index: int) -> str:
    return self._paths[np.searchsorted(self._ends, index, side="right")]


def _count(path: str) -> int:
  try:
    return len(grain.sources.ArrayRecordDataSource(path))
  except RuntimeError as error:
    raise _damaged(path, error) from None


def _damaged(path: str, error: RuntimeError) -> UserError:
  # The message of ArrayRecord has the byte and what it expected there.
  return integrity.damaged(path, str(error).partition("\n")[0])
