"""Lines of a file into rows: tab-separated, CSV, JSON Lines.

Each reader yields what an error calls the row, with its cells or fields, or a
`BadRow` in its place. `tasks/your_data/rows.py` says what the formats are.
"""

from collections.abc import Iterator
import csv
import json
from typing import Any

from tasks.sources import line_files
from tasks.sources.line_files import BadRow
from tasks.sources.line_files import line_name
from transformer_zoo.errors import UserError

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
