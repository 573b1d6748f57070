"""A SeqIO source over aligned text files: line k of each says the same."""

from collections.abc import Iterator, Mapping, Sequence
import itertools
import json
import os

import tensorflow as tf

from tasks.sources import data_folders
from tasks.sources import line_files
from tasks.sources.line_files import BadRow
from transformer_zoo.data.prepare import fingerprints
from transformer_zoo.errors import UserError

# A sentence; a longer line has lost its end and would shift all that follow.
_MOST_BYTES = 1 << 20


class AlignedFilesDataSource(line_files.LineFilesDataSource):
  r"""Rows `{'de': string, 'en': string}` from `<stem>.de` and `<stem>.en`.

  The ends of a line are cut off (`\n`, `\r`, spaces and tabs), nothing else
  is changed. A row with an empty line, or with one of more than 1 MiB, is a bad
  row.
  """

  def __init__(self, split_to_stem: Mapping[str, str], suffixes: Sequence[str]):
    """Names the files; they are looked for when a split is first read.

    Args:
      split_to_stem: per split the path of its files without the last dot and
        suffix, absolute or relative to a data folder.
      suffixes: of the files, and the names of the features.
    """
    super().__init__(
      {s: f"{stem}.{suffixes[0]}" for s, stem in split_to_stem.items()},
      signature=dict.fromkeys(suffixes, tf.TensorSpec((), tf.string)),
      content="sentence",
      settings=list(suffixes),
    )
    self._suffixes = tuple(suffixes)

  def fingerprint(self) -> str:
    """Returns what the rows depend on, for `zoo prepare`."""
    files = [
      fingerprints.describe_file(path)
      for split in self.splits
      for shard in self.list_shards(split)
      for path in self._files(shard)[1:]
    ]
    return json.dumps([super().fingerprint(), files])

  def read(self, path: str) -> Iterator[dict[str, str] | BadRow]:
    """Yields the rows of the files and, in their places, the bad ones.

    Args:
      path: the file of the first suffix.

    Raises:
      UserError: a file is missing, unreadable or damaged, or the files have
        different numbers of lines.
    """
    paths = self._files(path)
    readers = [line_files.read_lines(p, _MOST_BYTES) for p in paths]
    for lines in itertools.zip_longest(*readers):
      if None in lines:
        self._explain_lengths(paths)
      row, problem = {}, None
      for (number, line), suffix, file in zip(
        lines, self._suffixes, paths, strict=True
      ):
        row[suffix] = line and line.strip(" \t\r\n")
        if problem is None and (reason := _problem(row[suffix])):
          where = line_files.line_name(number, file)
          problem = f"{where} {reason}"
      yield row if problem is None else BadRow(problem)

  def _files(self, path: str) -> list[str]:
    """Returns the aligned files, given the one of the first suffix.

    Raises:
      UserError: one is missing.
    """
    stem = path.removesuffix(f".{self._suffixes[0]}")
    paths = [f"{stem}.{suffix}" for suffix in self._suffixes]
    for file in paths:
      if not os.path.isfile(file):
        raise UserError(
          f"The data file {file!r} is missing, which is aligned with {path!r}; "
          f"{data_folders.where_searched()}."
        )
    return paths

  def _explain_lengths(self, paths: Sequence[str]) -> None:
    """Raises UserError with the numbers of lines."""
    counts = " and ".join(
      f"{path!r} has {sum(1 for _ in line_files.read_lines(path)):,} lines"
      for path in paths
    )
    raise UserError(
      f"Aligned data files must have as many lines as each other, but {counts}."
    )


def _problem(line: str | None) -> str | None:
  """Returns what is wrong with a line, to follow its name in a sentence."""
  if line is None:
    return f"has more than {_MOST_BYTES:,} bytes"
  if problem := line_files.find_problem(line):
    return f"has {problem}"
  return None if line.strip() else "is empty"
