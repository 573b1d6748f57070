"""A SeqIO source over text files: JSON Lines or plain text, gzip or not."""

from collections.abc import Iterator, Mapping
import functools
import gzip
import json
import os
import random
import zlib

import seqio
import tensorflow as tf

from tasks import data_folders
from transformer_zoo.errors import UserError


class TextFilesDataSource(seqio.DataSource):
  """Documents of text files, in the order of the files and their lines.

  A file whose name ends in `.jsonl` or `.json` (before an optional `.gz`) has
  a JSON object per line; any other file is plain text with a document per
  line. Blank lines are passed over.
  """

  def __init__(
    self, split_to_pattern: Mapping[str, str], text_key: str = "text"
  ):
    """Names the files; they are looked for when a split is first read.

    Args:
      split_to_pattern: a glob pattern per split, absolute or relative to a
        data folder.
      text_key: the field of a JSON object that holds the document.
    """
    self._split_to_pattern = dict(split_to_pattern)
    self._text_key = text_key
    super().__init__(splits=self._split_to_pattern)

  @property
  def supports_arbitrary_sharding(self) -> bool:
    return False

  def list_shards(self, split: str) -> list[str]:
    return data_folders.find_files(self._split_to_pattern[split])

  def fingerprint(self) -> str:
    """Returns what the documents depend on, for `zoo prepare`."""
    files = {
      split: [
        (path, os.stat(path).st_size, os.stat(path).st_mtime_ns)
        for path in self.list_shards(split)
      ]
      for split in self.splits
    }
    return json.dumps([self._text_key, files])

  def get_dataset(
    self,
    split: str = "train",
    shuffle: bool = True,
    seed: int | None = None,
    shard_info: seqio.ShardInfo | None = None,
    *,
    sequence_length: Mapping[str, int] | None = None,
    use_cached: bool = False,
    num_epochs: int | None = 1,
  ) -> tf.data.Dataset:
    """Returns a dataset of `{'text': string}`.

    Args:
      split: which files.
      shuffle: read the files in a random order; documents keep theirs.
      seed: of that order.
      shard_info: take every `num_shards`-th file.
      sequence_length: unused.
      use_cached: unused.
      num_epochs: unused.

    Raises:
      UserError: no file matches, or one is empty, unreadable or damaged. The
        files are read through for it, once in a process: TensorFlow would hide
        the error of a reader, and half a corpus would be written before it.
    """
    del sequence_length, use_cached, num_epochs
    files = self.list_shards(split)
    for path in files:
      _check(path, os.stat(path).st_mtime_ns, self._text_key)
    if shard_info:
      files = files[shard_info.index :: shard_info.num_shards]
    if shuffle:
      random.Random(seed).shuffle(files)

    def documents():
      for path in files:
        for text in read_documents(path, self._text_key):
          yield {"text": text}

    return tf.data.Dataset.from_generator(
      documents, output_signature={"text": tf.TensorSpec((), tf.string)}
    )


def read_documents(path: str, text_key: str = "text") -> Iterator[str]:
  """Yields the documents of one file.

  Args:
    path: JSON Lines or plain text, gzip if its name ends in `.gz`.
    text_key: the field of a JSON object that holds the document.

  Raises:
    UserError: the file is unreadable or damaged, or a line has no text.
  """
  is_json = path.removesuffix(".gz").endswith((".jsonl", ".json"))
  opener = gzip.open if path.endswith(".gz") else open
  try:
    with opener(path, "rt", encoding="utf-8") as lines:
      for number, line in enumerate(lines, start=1):
        if not line.strip():
          continue
        if is_json:
          yield _text_of(line, text_key, path, number)
        else:
          yield line.strip()
  except (OSError, EOFError, zlib.error) as error:
    reason = getattr(error, "strerror", None) or str(error)
    raise UserError(
      f"The data file {path!r} is unreadable or damaged ({reason})."
    ) from error
  except UnicodeDecodeError as error:
    raise UserError(
      f"The data file {path!r} is not UTF-8 text ({error.reason})."
    ) from error


def _text_of(line: str, text_key: str, path: str, number: int) -> str:
  """Returns the text of one line of JSON Lines."""
  try:
    record = json.loads(line)
  except json.JSONDecodeError as error:
    raise UserError(
      f"Line {number} of the data file {path!r} is not JSON ({error.msg})."
    ) from error
  if not isinstance(record, dict) or not isinstance(record.get(text_key), str):
    raise UserError(
      f"Line {number} of the data file {path!r} has no string {text_key!r}."
    )
  return record[text_key]


@functools.cache
def _check(path: str, modified: int, text_key: str) -> None:
  """Reads a file through; UserError if it is damaged or holds no document."""
  del modified  # part of the cache key: a rewritten file is checked again
  num_documents = sum(1 for _ in read_documents(path, text_key))
  if not num_documents:
    raise UserError(f"The data file {path!r} is empty: it has no document.")
