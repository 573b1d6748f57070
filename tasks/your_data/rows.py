"""Rows of user files: TSV, CSV, JSON Lines, Parquet or Arrow.

Files of text are UTF-8 with or without a byte order mark, with Unix or Windows
line ends, gzip if the name ends in `.gz`. Blank lines are passed over.

- TSV has a row on each line and no quoting: a quote is a quote.
- CSV is RFC 4180: a field in double quotes may have commas, line breaks, and
  quotes written twice.
- JSON Lines has an object on each line; a number stays text as it is written.
- Parquet and Arrow have columns (`arrow_files`); a null is a field without a
  value, as in JSON.

Bad rows are reported or skipped (`line_files`): rows that are not UTF-8, have a
NUL character, a number that is none, or another number of columns than the
header, are no JSON or longer than `max_row_bytes`, and rows whose conversion
fails, as by an empty field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import csv
import dataclasses
import json
import math
import os
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.sources import arrow_files
from tasks.sources import line_files
from tasks.sources.line_files import BadRow
from tasks.sources.line_files import line_name
from tasks.your_data.registration import checks_arguments
from tasks.your_data.templates import RowProblem
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

MAX_ROW_BYTES = 1_000_000
TEXT = tf.TensorSpec((), tf.string)
Row = Mapping[str, Any]


@checks_arguments
@dataclasses.dataclass(frozen=True)
class RowFiles:
  """Files of rows, by split.

  Attributes:
    splits: a glob pattern per split, absolute or relative to a data folder or
      to the current one.
    kind: 'tsv', 'csv', 'jsonl', 'parquet', or 'arrow' for Arrow files and
      folders that `datasets` saved.
    columns: names of the columns of TSV or CSV files that have no header; with
      None the first line of each file has them.
    delimiter: The character between the columns of CSV.
    max_row_bytes: A longer row is a bad one; of Parquet and Arrow the texts of
      the needed columns count.
  """

  splits: Mapping[str, str]
  kind: str
  columns: tuple[str, ...] | None = None
  delimiter: str = ","
  max_row_bytes: int = MAX_ROW_BYTES

  def __post_init__(self):
    kinds = ("arrow", "csv", "jsonl", "parquet", "tsv")
    if self.kind not in kinds:
      raise UserError(
        f"Rows are of no kind {self.kind!r}" + nearest(self.kind, kinds)
      )
    patterns = self.splits.values() if isinstance(self.splits, Mapping) else [0]
    if not all(isinstance(pattern, (str, os.PathLike)) for pattern in patterns):
      raise UserError(
        f"splits={self.splits!r} is no file or pattern per split; write it as "
        "{'train': 'train.tsv'}."
      )
    if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
      raise UserError(
        f"delimiter={self.delimiter!r} cannot separate columns; give one "
        "character that is no quote."
      )
    if self.columns is not None:
      line_files.check_columns(self.columns, (), "columns=")

  def read(
    self, path: str, fields: Iterable[str]
  ) -> Iterator[tuple[str, Row] | BadRow]:
    """Yields the rows of a file, each with what an error calls it.

    Args:
      path: the file.
      fields: The columns that are needed; of JSON Lines all are read.

    Raises:
      UserError: the file cannot be read; it lacks a needed column or has a name
        twice; a quote in it is never closed.
    """
    if self.kind == "jsonl":
      rows = read_json(path, self.max_row_bytes)
    elif self.kind in ("arrow", "parquet"):
      rows = self._read_batches(path, fields)
    else:
      rows = self._read_table(path, fields)
    for row in rows:
      if not isinstance(row, BadRow):
        where, values = row
        if problem := _find_bad_value(values):
          row = BadRow(f"{where} has {problem}")
      yield row

  def _read_batches(
    self, path: str, fields: Iterable[str]
  ) -> Iterator[tuple[str, Row] | BadRow]:
    rows = arrow_files.read_rows(path, self.kind, tuple(fields))
    for where, values in rows:
      if _num_bytes(values) > self.max_row_bytes:
        yield _too_long(where, self.max_row_bytes)
      else:
        yield where, values

  def _read_table(
    self, path: str, fields: Iterable[str]
  ) -> Iterator[tuple[str, Row] | BadRow]:
    if self.kind == "tsv":
      records = split_tabs(path, self.max_row_bytes)
    else:
      records = split_csv(path, self.max_row_bytes, self.delimiter)
    names = self.columns and list(self.columns)
    is_first = True
    for record in records:
      if isinstance(record, BadRow):
        if names is None:
          raise UserError(f"{record.sentence} It should name the columns.")
        yield record
        continue
      where, cells = record
      if is_first:
        is_first = False
        if names is None:
          names = cells
          if problem := _find_bad_value(names):
            raise UserError(f"{where} has {problem}.")
          line_files.check_columns(names, fields, where, _HEADERLESS)
          continue
        if cells == names:
          raise UserError(
            f"{where} repeats the names in columns=; leave columns= out for a "
            "file with a header."
          )
        line_files.check_columns(names, fields, "columns=")
      if len(cells) == len(names):
        yield where, dict(zip(names, cells, strict=True))
      else:
        hint = "" if self.kind == "csv" else _QUOTED
        yield BadRow(
          f"{where} has {len(cells)} columns, not the {len(names)} columns "
          + ", ".join(map(repr, names))
          + hint
        )


_HEADERLESS = " (columns= names the columns of a file without a header)"
_QUOTED = (
  " (a file whose fields are quoted is read by from_csv with delimiter='\\t')"
)


class RowsDataSource(line_files.LineFilesDataSource):
  """Examples made of rows, one by one, in Python."""

  def __init__(
    self,
    files: RowFiles,
    convert: Callable[[Row], Iterable[Mapping[str, Any]]],
    *,
    signature: Mapping[str, tf.TensorSpec],
    fields: Iterable[str],
    settings: Any,
  ):
    """Says what the rows become.

    Args:
      files: The files of the rows.
      convert: gives the examples of a row; raises `RowProblem` for a bad one.
      signature: The tensor specification of an example.
      fields: The fields that `convert` needs.
      settings: JSON of all that `convert` depends on.
    """
    kept = dataclasses.asdict(files)
    del kept["splits"]
    super().__init__(
      files.splits,
      signature=signature,
      content="row",
      settings=[kept, settings],
    )
    self._files = files
    self._convert = convert
    # `{answers.text}` is a part of the column `answers`.
    self._fields = tuple(fields)

  def list_shards(self, split: str) -> list[str]:
    files = super().list_shards(split)
    if self._files.kind == "arrow":
      return arrow_files.expand(files, split)
    return files

  def read(self, path: str) -> Iterator[dict[str, Any] | BadRow]:
    for row in self._files.read(path, self._fields):
      if isinstance(row, BadRow):
        yield row
        continue
      where, values = row
      try:
        examples = list(self._convert(values))
      except RowProblem as problem:
        yield BadRow(f"{where} {problem}")
      else:
        yield from examples


def _find_bad_value(values: Any, field: str = "") -> str | None:
  """Returns what is wrong with a value in a row, and in which field."""
  if isinstance(values, str):
    problem = line_files.find_problem(values)
    return problem and f"{problem}, in the field {field!r}"
  if isinstance(values, (float, np.floating)) and not math.isfinite(values):
    return f"{values}, which is no number, in the field {field!r}"
  if isinstance(values, dict):
    parts = values.items()
  elif isinstance(values, list):
    parts = enumerate(values)
  else:
    return None
  for name, part in parts:
    if found := _find_bad_value(
      part, f"{field}.{name}" if field else str(name)
    ):
      return found
  return None


def _num_bytes(values: Any) -> int:
  """Returns the size of the texts of a row."""
  if isinstance(values, str):
    return len(values.encode("utf-8", errors="surrogateescape"))
  if isinstance(values, dict):
    return sum(map(_num_bytes, values.values()))
  return sum(map(_num_bytes, values)) if isinstance(values, list) else 0


# csv has a limit of its own, for the whole process; ours is per row.
csv.field_size_limit(2**31 - 1)


def split_tabs(
  path: str, most_bytes: int
) -> Iterator[tuple[str, list[str]] | BadRow]:
  """Yields the cells of each line of a tab-separated file."""
  for number, line in line_files.read_lines(path, most_bytes):
    where = line_name(number, path)
    if line is None:
      yield _too_long(where, most_bytes)
    elif line := line.removesuffix("\n").removesuffix("\r"):
      yield where, line.split("\t")


def split_csv(
  path: str, most_bytes: int, delimiter: str
) -> Iterator[tuple[str, list[str]] | BadRow]:
  """Yields the cells of each row of a CSV file."""
  lines = _CsvLines(path, most_bytes)
  reader = csv.reader(lines, delimiter=delimiter, strict=True)
  while True:
    lines.begin_row()
    try:
      cells = next(reader)
    except StopIteration:
      return
    except csv.Error as error:
      where = line_name(lines.first, path, lines.last)
      if lines.ended:
        raise UserError(
          f"{where} has a quote that is never closed; a quote within a quoted "
          'field is written twice ("").'
        ) from error
      yield BadRow(f"{where} is not CSV ({error})")
      continue
    where = line_name(lines.first, path, lines.last)
    if lines.has_long_line:
      yield _too_long(where, most_bytes)
    elif cells:
      yield where, cells


class _CsvLines:
  """The lines of a file, as `csv.reader` takes them, by row.

  Attributes:
    first: number of the first line of the row.
    last: number of its last line.
    has_long_line: whether one of them exceeds the limit.
    ended: whether the file is at its end.
  """

  def __init__(self, path: str, most_bytes: int):
    self._path = path
    self._most_bytes = most_bytes
    self._lines = line_files.read_lines(path, most_bytes)
    self.last = 0
    self.ended = False
    self.begin_row()

  def begin_row(self) -> None:
    self.first = self.last + 1
    self.has_long_line = False
    self._num_characters = 0

  def __iter__(self):
    return self

  def __next__(self) -> str:
    try:
      self.last, line = next(self._lines)
    except StopIteration:
      self.ended = True
      raise
    if line is None:
      self.has_long_line = True
      return "\n"
    self._num_characters += len(line)
    if self._num_characters > self._most_bytes:
      raise UserError(
        f"{line_name(self.first, self._path)} begins a row of more than "
        f"{self._most_bytes:,} bytes (max_row_bytes); a quote in it may never "
        "be closed."
      )
    return line


def read_json(
  path: str, most_bytes: int
) -> Iterator[tuple[str, dict[str, Any]] | BadRow]:
  """Yields the object of each line; numbers stay as they are written."""
  for number, line in line_files.read_lines(path, most_bytes):
    where = line_name(number, path)
    if line is None:
      yield _too_long(where, most_bytes)
      continue
    if not line.strip():
      continue
    try:
      values = json.loads(
        line,
        parse_int=str,
        parse_float=str,
        parse_constant=_refuse_constant,
        object_pairs_hook=_object,
      )
    except (ValueError, RecursionError) as error:
      reason = getattr(error, "msg", None) or str(error)
      yield BadRow(f"{where} is not JSON ({reason}), an object on each line")
      continue
    if isinstance(values, dict):
      yield where, values
    else:
      yield BadRow(f"{where} is no JSON object ({{...}})")


def _refuse_constant(name: str) -> None:
  raise ValueError(f"{name} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Returns a JSON object; of a name that comes twice, one would be lost."""
  values = dict(pairs)
  if len(values) < len(pairs):
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(f"the field {twice!r} comes twice")
  return values


def _too_long(where: str, most_bytes: int) -> BadRow:
  return BadRow(
    f"{where} is longer than {most_bytes:,} bytes, the most a row may have "
    "(max_row_bytes)"
  )
