"""Shards of a split: the writer of one, and the tables that join them.

What is noted down of a shard (its counts, its lengths, its checksums) lies in
the folder `notes` until all is done. A shard is finished when its `.json` is
there, which is written last; a killed `prepare` goes on after those.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
from typing import Any

from array_record.python import array_record_module
import numpy as np

from transformer_zoo.data.storage import integrity
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records
from transformer_zoo.data.storage.manifest import Shard
from transformer_zoo.data.storage.manifest import SplitInfo
from transformer_zoo.errors import UserError


def write_examples(
  content: Iterable[Mapping[str, Any]],
  path: pathlib.Path,
  split: str,
  task: manifest.PreparedTask,
) -> dict[str, np.ndarray]:
  """Writes a record for each example; returns their lengths."""
  writer = array_record_module.ArrayRecordWriter(
    str(path), records.WRITER_OPTIONS
  )
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


# Of a step that splits sentences: tokens of each sentence of a document.
SENTENCE_LENGTHS = "sentence_lengths"
_SUFFIXES = {"examples": "array_record", "tokens": "tokens"}
_PERCENTILES = (0, 50, 90, 99, 100)
_JOINED = 64  # documents
_NOTES = "notes"
# What becomes of the lengths of a 'tokens' task.
_ENDS = {"lengths": "document_ends", SENTENCE_LENGTHS: "sentence_ends"}


@dataclasses.dataclass(frozen=True)
class Documents:
  """Tokenised documents, joined.

  Attributes:
    ids: [tokens], without EOS.
    lengths: tokens of each, int32 [documents].
    sentence_lengths: tokens of each sentence of all, int32 [sentences]; None
      where sentences are not split.
  """

  ids: np.ndarray
  lengths: np.ndarray
  sentence_lengths: np.ndarray | None = None


class Skipped:
  """Bad rows that are left out.

  Attributes:
    number: The number of bad rows.
    first: a sentence about the first one, '' where there is none.
  """

  def __init__(self):
    self.number, self.first = 0, ""

  def add(self, sentence: str, number: int = 1) -> None:
    """Counts rows, of which a sentence describes the first."""
    self.first = self.first or sentence
    self.number += number


@dataclasses.dataclass(frozen=True)
class Place:
  """A shard of a split, by its number.

  Attributes:
    split: name of the split.
    index: The number of the shard, from 0.
    count: The number of shards of the split.
  """

  split: str
  index: int = 0
  count: int = 1

  @property
  def name(self) -> str:
    """The shard's files begin with it."""
    return f"{self.split}-{self.index:05d}-of-{self.count:05d}"


def write_shard(
  content: Iterable[Mapping[str, Any]] | Iterable[Documents],
  place: Place,
  task: manifest.PreparedTask,
  folder: pathlib.Path,
  skipped: Skipped | None = None,
) -> None:
  """Writes a shard and, last, the file that says that it is finished.

  Args:
    content: mappings with the ids of every feature (`targets` alone in a
      'tokens' task, and `sentence_lengths` where it splits sentences) and
      anything else, as numpy values; or `Documents` of a 'tokens' task.
    place: The place of the shard.
    task: says name, kind, features and vocabulary.
    folder: The folder that the shard is written to.
    skipped: rows that were left out once `content` has been read.

  Raises:
    UserError: a feature is missing, or ids are outside the vocabulary.
  """
  path = folder / f"{place.name}.{_SUFFIXES[task.kind]}"
  write = _write_documents if task.kind == "tokens" else write_examples
  arrays = write(content, path, place.split, task)
  arrays["checksums"] = integrity.block_checksums(path)
  (folder / _NOTES).mkdir(exist_ok=True)
  for name, array in arrays.items():
    np.save(_array_file(folder, place, name), array)
  shard = Shard(
    **vars(integrity.describe(path)),
    num_examples=len(arrays["lengths"]),
    num_tokens=int(arrays["lengths"].sum(dtype=np.int64)),
  )
  finished = _finished_file(folder, place)
  note = {
    "shard": dataclasses.asdict(shard),
    "arrays": sorted(arrays),
    "skipped": vars(skipped or Skipped()),
  }
  temporary = finished.with_suffix(".partial")
  temporary.write_text(json.dumps(note), encoding="utf-8")
  os.replace(temporary, finished)


def is_finished(place: Place, folder: pathlib.Path) -> bool:
  """Returns whether a shard has been written, and its file is still whole."""
  try:
    shard = _read_finished(place, folder)["shard"]
    return os.path.getsize(folder / shard["name"]) == shard["num_bytes"]
  except (OSError, ValueError):
    return False


def join_shards(
  split: str, count: int, task: manifest.PreparedTask, folder: pathlib.Path
) -> SplitInfo:
  """Writes the tables of a split from what is noted down of its shards.

  Args:
    split: name of the split.
    count: number of its shards, which are all finished.
    task: says name, kind and features.
    folder: The folder of the shards.

  Raises:
    UserError: the shards have no tokens.
  """
  places = [Place(split, index, count) for index in range(count)]
  notes = [_read_finished(place, folder) for place in places]
  shards = tuple(Shard(**note["shard"]) for note in notes)
  num_tokens = sum(shard.num_tokens for shard in shards)
  if not num_tokens:
    raise UserError(f"Task {task.name!r} has no examples in split {split!r}.")
  arrays = {
    name: [
      np.load(_array_file(folder, place, name))
      for place, note in zip(places, notes, strict=True)
      if name in note["arrays"]
    ]
    for name in sorted({name for note in notes for name in note["arrays"]})
  }
  quantiles = _quantiles(np.concatenate(arrays["lengths"]), task)
  if task.kind == "tokens":
    for lengths, ends in _ENDS.items():
      if lengths in arrays:
        arrays[ends] = _ends(arrays.pop(lengths))
  tables = {}
  for name, parts in arrays.items():
    path = folder / f"{split}.{name}.npy"
    np.save(path, np.concatenate(parts))
    tables[name] = integrity.describe(path)
  return SplitInfo(
    num_examples=sum(shard.num_examples for shard in shards),
    num_tokens=num_tokens,
    quantiles=quantiles,
    shards=shards,
    tables=tables,
    num_skipped=skipped_rows(split, count, folder).number,
  )


def skipped_rows(split: str, count: int, folder: pathlib.Path) -> Skipped:
  """Returns the bad rows that were left out of all finished shards."""
  skipped = Skipped()
  for index in range(count):
    note = _read_finished(Place(split, index, count), folder)["skipped"]
    skipped.add(note["first"], note["number"])
  return skipped


def remove_notes(folder: pathlib.Path) -> None:
  """Removes what is needed only until all splits are joined."""
  shutil.rmtree(folder / _NOTES, ignore_errors=True)  # absent without splits


def join_documents(
  examples: Iterable[Mapping[str, Any]], split: str, task: manifest.PreparedTask
) -> Iterator[Documents]:
  """Yields the `targets` of examples, many joined."""
  examples = iter(examples)
  while some := list(itertools.islice(examples, _JOINED)):
    ids = [checked(e, "targets", split, task) for e in some]
    sentences = [e[SENTENCE_LENGTHS] for e in some if SENTENCE_LENGTHS in e]
    yield Documents(
      np.concatenate(ids),
      np.array([len(some) for some in ids], np.int32),
      np.concatenate(sentences).astype(np.int32) if sentences else None,
    )


def _write_documents(
  content: Iterable[Documents],
  path: pathlib.Path,
  split: str,
  task: manifest.PreparedTask,
) -> dict[str, np.ndarray]:
  """Writes bare ids; returns the lengths of documents and sentences."""
  noted = {"lengths": [np.zeros(0, np.int32)], SENTENCE_LENGTHS: []}
  with open(path, "wb") as file:
    for documents in content:
      check_ids(documents.ids, "targets", split, task)
      file.write(documents.ids.astype(task.token_dtype).tobytes())
      noted["lengths"].append(documents.lengths)
      if documents.sentence_lengths is not None:
        noted[SENTENCE_LENGTHS].append(documents.sentence_lengths)
  return {
    name: np.concatenate(lengths) for name, lengths in noted.items() if lengths
  }


def _ends(lengths: Sequence[np.ndarray]) -> list[np.ndarray]:
  """Returns where each piece ends in the joined stream, int64."""
  return [np.cumsum(np.concatenate(lengths), dtype=np.int64)]


def _quantiles(
  lengths: np.ndarray, task: manifest.PreparedTask
) -> dict[str, dict[str, int]]:
  features = ("targets",) if task.kind == "tokens" else task.features
  values = np.percentile(
    lengths.reshape(-1, len(features)), _PERCENTILES, axis=0, method="lower"
  )
  return {
    feature: dict(zip(map(str, _PERCENTILES), map(int, column), strict=True))
    for feature, column in zip(features, values.T, strict=True)
  }


def _array_file(folder: pathlib.Path, place: Place, name: str) -> pathlib.Path:
  return folder / _NOTES / f"{place.name}.{name}.npy"


def _finished_file(folder: pathlib.Path, place: Place) -> pathlib.Path:
  return folder / _NOTES / f"{place.name}.json"


def _read_finished(place: Place, folder: pathlib.Path) -> dict[str, Any]:
  return json.loads(_finished_file(folder, place).read_text(encoding="utf-8"))
