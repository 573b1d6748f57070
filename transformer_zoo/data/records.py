"""Examples and token streams as records: how they are written and decoded."""

from collections.abc import Iterable, Iterator, Mapping
import itertools
import pathlib
from typing import Any

from array_record.python import array_record_module
import msgpack
import numpy as np

from transformer_zoo.data import manifest
from transformer_zoo.errors import UserError

# Each record is alone in its group, as Grain asks: a block of 4096 ids is read
# at random in a tenth of the time of groups of 16. Blocks of ids stay as they
# are: compressed, they are a third smaller and take twice as long to read.
_WRITER_OPTIONS = {
  "examples": "group_size:1",
  "tokens": "group_size:1,uncompressed",
}
_PERCENTILES = (0, 50, 90, 99, 100)


def write_split(
  examples: Iterable[Mapping[str, Any]],
  split: str,
  task: manifest.PreparedTask,
  folder: pathlib.Path,
) -> manifest.SplitInfo:
  """Writes `<split>.array_record` and `<split>.lengths.npy` into `folder`.

  Args:
    examples: mappings with the ids of every feature (`targets` alone in a
      'tokens' task) and anything else, as numpy values.
    split: name of the split.
    task: says name, kind, features and vocabulary.
    folder: where to write.

  Returns:
    The counts, quantiles and checksums of the files.

  Raises:
    UserError: there are no examples, a feature is missing, or ids are outside
      the vocabulary.
  """
  features = ("targets",) if task.kind == "tokens" else task.features
  example_lengths = []
  size = task.vocabulary.size

  def tokens_of(example):
    tokens = {}
    for feature in features:
      if feature not in example:
        raise UserError(
          f"Task {task.name!r} makes no feature {feature!r} in split {split!r}."
        )
      tokens[feature] = _checked(example[feature], size, feature, split, task)
    example_lengths.append([len(ids) for ids in tokens.values()])
    return tokens

  def encoded(number, example):
    text = {}
    for key in example:
      if key in features:
        continue
      try:
        text[key] = _to_json(example[key])
      except UnicodeDecodeError as error:
        raise UserError(
          f"Task {task.name!r} has text that is not UTF-8 in field {key!r} of "
          f"split {split!r}, example {number} (byte {error.start}: "
          f"{error.object[error.start : error.end]!r}); mend the data."
        ) from None
    return encode_example(tokens_of(example), text)

  if task.kind == "tokens":
    stream = (tokens_of(example)["targets"] for example in examples)
    pieces = _cut(stream, task.token_dtype)
  else:
    pieces = itertools.starmap(encoded, enumerate(examples))
  path = folder / f"{split}.array_record"
  options = _WRITER_OPTIONS[task.kind]
  writer = array_record_module.ArrayRecordWriter(str(path), options)
  num_records = 0
  for piece in pieces:
    writer.write(piece)
    num_records += 1
  writer.close()
  lengths = np.array(example_lengths, np.int32).reshape(-1, len(features))
  num_tokens = int(lengths.sum(dtype=np.int64))
  if not num_tokens:
    raise UserError(f"Task {task.name!r} has no examples in split {split!r}.")
  quantiles = _quantiles(lengths, features)
  num_examples = len(lengths)
  if task.kind == "tokens":
    lengths = np.full((num_records, 1), manifest.BLOCK_LENGTH, np.int32)
    lengths[-1] = num_tokens - (num_records - 1) * manifest.BLOCK_LENGTH
  lengths_path = folder / f"{split}.lengths.npy"
  np.save(lengths_path, lengths)
  return manifest.SplitInfo(
    num_examples=num_examples,
    num_tokens=num_tokens,
    quantiles=quantiles,
    file=path.name,
    sha256=manifest.sha256(path),
    num_bytes=path.stat().st_size,
    lengths_sha256=manifest.sha256(lengths_path),
  )


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


def _checked(
  ids: Any, size: int, feature: str, split: str, task: manifest.PreparedTask
) -> np.ndarray:
  """Returns the ids as int32 [length], all below `size`."""
  ids = np.asarray(ids)
  if ids.ndim != 1 or ids.dtype.kind != "i":
    raise UserError(
      f"Task {task.name!r} makes {feature!r} of shape {ids.shape} and type "
      f"{ids.dtype} in split {split!r}; one row of integer ids is needed."
    )
  # Unsigned, a negative id is a large one.
  if ids.size and ids.view(f"u{ids.itemsize}").max() >= size:
    wrong = ids[(ids < 0) | (ids >= size)][0]
    raise UserError(
      f"Task {task.name!r} has the id {wrong} in {feature!r} of split {split!r}"
      f", outside its vocabulary of {size} ids ({task.vocabulary.path})."
    )
  return ids.astype(np.int32)


def _cut(stream: Iterable[np.ndarray], dtype: str) -> Iterator[bytes]:
  """Yields the joined stream in blocks of BLOCK_LENGTH ids."""
  waiting, num_waiting = [], 0
  for ids in stream:
    waiting.append(ids)
    num_waiting += len(ids)
    if num_waiting < manifest.BLOCK_LENGTH:
      continue
    joined = np.concatenate(waiting)
    num_whole = num_waiting - num_waiting % manifest.BLOCK_LENGTH
    for start in range(0, num_whole, manifest.BLOCK_LENGTH):
      yield (
        joined[start : start + manifest.BLOCK_LENGTH].astype(dtype).tobytes()
      )
    waiting, num_waiting = [joined[num_whole:]], num_waiting - num_whole
  if num_waiting:
    yield np.concatenate(waiting).astype(dtype).tobytes()


def _quantiles(
  lengths: np.ndarray, features: tuple[str, ...]
) -> dict[str, dict[str, int]]:
  values = np.percentile(lengths, _PERCENTILES, axis=0, method="lower")
  return {
    feature: dict(zip(map(str, _PERCENTILES), map(int, column), strict=True))
    for feature, column in zip(features, values.T, strict=True)
  }


def _to_json(value: Any) -> Any:
  """Returns a numpy or ragged value as what JSON knows."""
  if hasattr(value, "to_list"):  # a ragged tensor's value
    value = value.to_list()
  elif isinstance(value, (np.ndarray, np.generic)):
    value = value.tolist()
  if isinstance(value, bytes):
    return value.decode("utf-8")
  if isinstance(value, (list, tuple)):
    return [_to_json(item) for item in value]
  if isinstance(value, Mapping):
    return {str(k): _to_json(v) for k, v in value.items()}
  return value
