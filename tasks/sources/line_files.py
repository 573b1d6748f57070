"""Files of lines as SeqIO sources: read strictly, bad rows reported or skipped.

A row that cannot be used as it is (see the sources that are built on this) ends
the reading with an error that names file, line and field. With the environment
variable `ZOO_SKIP_BAD_ROWS=1` (`zoo ... --skip_bad_rows`) it is passed over and
counted instead. No text is ever repaired: what comes out is what the file has.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import gzip
import io
import json
import os
import random
from typing import Any
import zlib

import seqio
import tensorflow as tf

from tasks.sources import data_folders
from tasks.sources import python_examples
from transformer_zoo.data.prepare import fingerprints
from transformer_zoo.data.prepare.fingerprints import skips_bad_rows
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_PIECE = 1 << 16  # bytes read at a time of a line that is too long
_UNPACKED = 1 << 20  # bytes unpacked at a time


class BadRow(UserError):
  """A row that cannot be used as it is.

  Attributes:
    sentence: file, line, field and what is wrong.
  """

  def __init__(self, sentence: str):
    super().__init__(
      f"{sentence}; correct it, or skip such rows with --skip_bad_rows."
    )
    self.sentence = sentence + "."


def line_name(number: int, path: str, last: int | None = None) -> str:
  """Returns how an error names a line, or the lines to `last`, of a file."""
  if last is None or last == number:
    return f"Line {number} of the data file {path!r}"
  return f"The row in lines {number} to {last} of the data file {path!r}"


def find_problem(text: str) -> str | None:
  """Returns why `text` cannot be kept as it is, None where it can.

  Args:
    text: decoded with `surrogateescape`, or out of JSON.
  """
  if "\0" in text:
    return "a NUL character"
  try:
    text.encode("utf-8")
  except UnicodeEncodeError as error:
    code = ord(text[error.start])
    if 0xDC80 <= code <= 0xDCFF:  # `surrogateescape`
      return f"the byte 0x{code - 0xDC00:02x}, which is not UTF-8"
    return f"half a surrogate pair (U+{code:04X}), which is no character"
  return None


def check_columns(
  names: Sequence[str], fields: Iterable[str], where: str, hint: str = ""
) -> None:
  """Raises UserError where a column is missing or has another's name.

  Args:
    names: The names of the columns.
    fields: The fields that are needed; `a.b` is a part of the column `a`.
    where: What has the names, for the sentence.
    hint: What follows the sentence of a missing column.
  """
  twice = [name for name in names if name and names.count(name) > 1]
  if twice:
    raise UserError(f"{where} names the column {twice[0]!r} twice.")
  for field in fields:
    if field not in names and field.partition(".")[0] not in names:
      raise UserError(
        f"{where} has no column {field!r}{nearest(field, names)}{hint}"
      )


def read_lines(
  path: str, most_bytes: int | None = None
) -> Iterator[tuple[int, str | None]]:
  r"""Yields the number, from 1, and the text of each line with its end.

  Only `\n` ends a line. A byte order mark at the beginning is left out; bytes
  that are not UTF-8 are decoded with `surrogateescape`, for `find_problem`.

  Args:
    path: gzip if its name ends in `.gz`.
    most_bytes: a longer line is read past and yielded as None.

  Raises:
    UserError: the file is unreadable or damaged, is UTF-16, or has the line
      ends of old Macs.
  """
  size = -1 if most_bytes is None else most_bytes + 1
  with _explained(path), _open(path) as file:
    number = 0
    while line := file.readline(size):
      number += 1
      if number == 1:
        if line.startswith(_UTF_16_MARKS):
          raise UserError(
            f"The data file {path!r} is not UTF-8 but UTF-16 text; save it as "
            "UTF-8."
          )
        line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r"):
          raise UserError(
            f"The data file {path!r} has the line ends of old Macs, a carriage "
            "return alone; save it with line feeds, as `tr '\\r' '\\n'` makes "
            "it."
          )
      if most_bytes is not None and len(line) > most_bytes:
        while not line.endswith(b"\n") and line:
          line = file.readline(_PIECE)
        yield number, None
      else:
        yield number, line.decode("utf-8", errors="surrogateescape")


class LineFilesDataSource(seqio.DataSource, abc.ABC):
  """Examples out of files, in the order of the files and their lines."""

  # Every file that the fingerprint depends on goes through `describe_file`.
  describes_files = True

  def __init__(
    self,
    split_to_pattern: Mapping[str, str | Sequence[str]],
    *,
    signature: Mapping[str, tf.TensorSpec],
    content: str,
    settings: Any,
  ):
    """Names the files; they are looked for when a split is first read.

    Args:
      split_to_pattern: a glob pattern per split, or several in their order,
        absolute or relative to a data folder or to the current one.
      signature: The tensor specification of an example.
      content: The name of what a line holds, for errors.
      settings: JSON of all that the examples depend on beside the files.
    """
    self._split_to_pattern = dict(split_to_pattern)
    self._signature = dict(signature)
    self._content = content
    self._settings = settings
    self._checked = {}
    super().__init__(splits=self._split_to_pattern)

  @abc.abstractmethod
  def read(self, path: str) -> Iterator[dict[str, Any] | BadRow]:
    """Yields the examples of one file and, in their places, its bad rows.

    Raises:
      UserError: the file as a whole cannot be read.
    """

  @property
  def supports_arbitrary_sharding(self) -> bool:
    return False

  def list_shards(self, split: str) -> list[str]:
    patterns = self._split_to_pattern[split]
    if isinstance(patterns, str):
      patterns = [patterns]
    return [
      file for pattern in patterns for file in data_folders.find_files(pattern)
    ]

  def fingerprint(self) -> str:
    """Returns what the examples depend on, for `zoo prepare`."""
    files = {
      split: [
        fingerprints.describe_file(path) for path in self.list_shards(split)
      ]
      for split in self.splits
    }
    return json.dumps([self._settings, files, skips_bad_rows()])

  def skipped_rows(self, split: str) -> list[str]:
    """Returns a sentence for each row of a split that is skipped as bad.

    Raises:
      UserError: see `get_dataset`.
    """
    return [
      sentence
      for path in self.list_shards(split)
      for sentence in self._check(path)
    ]

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
    """Returns the dataset of a split.

    Args:
      split: The split whose files are read.
      shuffle: read the files in a random order; rows keep theirs.
      seed: The seed of that order.
      shard_info: take every `num_shards`-th file.
      sequence_length: unused.
      use_cached: unused.
      num_epochs: unused.

    Raises:
      UserError: no file matches; one is empty, unreadable or damaged, or has a
        bad row. The files are read through for it, once in a process:
        TensorFlow would hide the error of a reader, and half a data set would
        be written before it.
    """
    del sequence_length, use_cached, num_epochs
    files = self.list_shards(split)
    for path in files:
      self._check(path)
    if shard_info:
      files = files[shard_info.index :: shard_info.num_shards]
    if shuffle:
      random.Random(seed).shuffle(files)

    def examples():
      for path in files:
        for example in self.read(path):
          if not isinstance(example, BadRow):
            yield example

    return python_examples.to_dataset(examples, self._signature)

  def good_rows(
    self, path: str, on_skipped: Callable[[str], None]
  ) -> Iterator[dict[str, Any]]:
    """Yields the examples of one file.

    Args:
      path: The path of the file.
      on_skipped: called with a sentence for each row that is skipped as bad.

    Raises:
      UserError: it is damaged, has a bad row that is not skipped, or has
        nothing else.
    """
    num_examples, num_skipped, first = 0, 0, ""
    for example in self.read(path):
      if not isinstance(example, BadRow):
        num_examples += 1
        yield example
      elif skips_bad_rows():
        num_skipped, first = num_skipped + 1, first or example.sentence
        on_skipped(example.sentence)
      else:
        raise example
    if not num_examples and num_skipped:
      raise UserError(
        f"The data file {path!r} has no {self._content} that can be used; "
        f"the first of {num_skipped} skipped: {first}"
      )
    if not num_examples:
      raise UserError(
        f"The data file {path!r} is empty: it has no {self._content}."
      )

  def _check(self, path: str) -> list[str]:
    """Reads a file through; returns the sentences of its bad rows.

    Raises:
      UserError: it is damaged, has a bad row that is not skipped, or has
        nothing else.
    """
    with _explained(path):
      status = os.stat(path)
    key = (path, status.st_mtime_ns, status.st_size, skips_bad_rows())
    if key not in self._checked:
      skipped = []
      for _ in self.good_rows(path, skipped.append):
        pass
      self._checked[key] = skipped
    return self._checked[key]


def _open(path: str) -> Any:
  if not path.endswith(".gz"):
    return open(path, "rb")
  # By itself gzip unpacks 8 KB at a time, which takes a third longer.
  return io.BufferedReader(gzip.open(path, "rb"), _UNPACKED)


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
  """Turns what a damaged file raises into a UserError."""
  try:
    yield
  except (OSError, EOFError, zlib.error) as error:
    reason = getattr(error, "strerror", None) or str(error)
    raise UserError(
      f"The data file {path!r} is unreadable or damaged ({reason})."
    ) from error
