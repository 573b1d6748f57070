"""Rows of Parquet and Arrow files, record batch by record batch.

Arrow files are IPC files or IPC streams. A folder that `datasets` saved
(`save_to_disk`) has streams, which `state.json` lists in their order; of a
dictionary of splits it has such a folder for each split, and their names in
`dataset_dict.json`.

Files are mapped into memory and read through pyarrow, which is imported when
the first one is. They may thus be larger than the memory.
"""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import os
from typing import Any

import numpy as np

from tasks.sources import line_files
from transformer_zoo import schemas
from transformer_zoo.errors import nearest
from transformer_zoo.errors import reason_of
from transformer_zoo.errors import UserError

_NAMES = {"arrow": "Arrow", "parquet": "Parquet"}
_ROWS = 100  # converted at a time: each may be a whole book
_FILE_MARK = b"ARROW1"
# Streams since Arrow 0.15 begin with the first four bytes of their end.
_END_MARK = b"\xff\xff\xff\xff\0\0\0\0"
_SPLITS = {"splits": schemas.Required([str])}
_STATE = {
  "_data_files": schemas.Required([{"filename": schemas.Required(str)}]),
  "_indices_data_files": (list, None),
}


def kind_of(path: str) -> str | None:
  """Returns 'arrow' or 'parquet' if a file's name ends so, or else None."""
  kind = os.path.splitext(path)[1].removeprefix(".")
  return kind if kind in _NAMES else None


def expand(paths: Iterable[str], split: str) -> list[str]:
  """Returns files, with the files of a split in place of each saved folder.

  Args:
    paths: Files, and folders that `datasets` saved.
    split: The split that is read of a folder with several.

  Raises:
    UserError: A folder lacks the split, or its files cannot be known.
  """
  found = []
  for path in paths:
    splits = os.path.join(path, "dataset_dict.json")
    if os.path.isfile(splits):
      names = schemas.read(splits, _SPLITS)["splits"]
      if split not in names:
        raise UserError(
          f"The folder {path!r} has no split {split!r}{nearest(split, names)} "
          f"(splits={{{split!r}: FOLDER}} takes the folder of another split)"
        )
      path = os.path.join(path, split)
    state = os.path.join(path, "state.json")
    found += _saved_files(state) if os.path.isfile(state) else [path]
  return found


def _saved_files(path: str) -> list[str]:
  """Returns the files of one split, given its `state.json`."""
  state = schemas.read(path, _STATE)
  if state.get("_indices_data_files"):
    raise UserError(
      f"{path!r} is of an early version of `datasets`, which saved the rows of "
      "a selection apart from an index of them; load it and save it again."
    )
  folder = os.path.dirname(path)
  files = [os.path.join(folder, f["filename"]) for f in state["_data_files"]]
  if not files:
    raise UserError(f"{path!r} lists no data files, so the split is empty.")
  return files


def read_rows(
  path: str, kind: str, fields: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields the rows of a file, each with what an error calls it.

  Values are texts, numbers, truth values, lists and dictionaries. Texts that
  are not UTF-8 are decoded with `surrogateescape`, for `find_problem`.

  Args:
    path: The path of the file.
    kind: 'arrow' or 'parquet'.
    fields: The fields that are needed, `a.b` for `b` within the column `a`;
      other columns are not read.

  Raises:
    UserError: The file is not of this kind or damaged, lacks a needed column
      or has a name twice.
  """
  batches = _arrow_batches if kind == "arrow" else _parquet_batches
  number = 0
  with _explained(path, kind):
    for batch in batches(path, fields):
      # Values at wrong places would end the process.
      _check(batch)
      for start in range(0, len(batch), _ROWS):
        part = batch.slice(start, _ROWS)
        columns = [_values(column) for column in part.columns]
        for values in zip(*columns, strict=True):
          number += 1
          where = f"Row {number} of the data file {path!r}"
          yield where, dict(zip(part.schema.names, values, strict=True))


def _parquet_batches(path: str, fields: Sequence[str]) -> Iterator[Any]:
  """Yields the needed columns of a Parquet file, some rows at a time."""
  from pyarrow import parquet  # pylint: disable=g-import-not-at-top

  with parquet.ParquetFile(path, memory_map=True) as file:
    names = _needed(file.schema_arrow.names, fields, path)
    # The processes of `zoo prepare` are parallel themselves.
    yield from file.iter_batches(_ROWS, columns=names, use_threads=False)


def _arrow_batches(path: str, fields: Sequence[str]) -> Iterator[Any]:
  """Yields the needed columns of an Arrow file, batch by batch."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  with pa.memory_map(path) as file:
    if file.read_at(len(_FILE_MARK), 0) == _FILE_MARK:
      reader = pa.ipc.open_file(file)
      batches = map(reader.get_batch, range(reader.num_record_batches))
    else:
      batches = reader = pa.ipc.open_stream(file)
      # A stream that ends between two batches would be read without an error.
      end = file.read_at(len(_END_MARK), max(0, file.size() - len(_END_MARK)))
      if file.read_at(4, 0) == _END_MARK[:4] and end != _END_MARK:
        raise pa.ArrowInvalid("the mark of its end is missing")
    names = _needed(reader.schema.names, fields, path)
    for batch in batches:
      yield batch.select(names)


def _needed(
  names: Sequence[str], fields: Sequence[str], path: str
) -> list[str]:
  """Returns the names of the columns that have the fields."""
  line_files.check_columns(names, fields, f"The data file {path!r}")
  tops = {field if field in names else field.split(".")[0] for field in fields}
  return [name for name in names if name in tops]


def _check(batch: Any) -> None:
  """Raises pyarrow.ArrowInvalid where the parts of a batch do not fit."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  for column in batch.columns:
    try:
      column.validate(full=True)
    except pa.ArrowInvalid as error:
      # A text that is not UTF-8 is the problem of its row.
      if "UTF8" not in str(error):
        raise


def _values(column: Any) -> list[Any]:
  """Returns the values of a column."""
  try:
    values = column.to_pylist(maps_as_pydicts="strict")
  except UnicodeDecodeError:
    values = [_value(scalar) for scalar in column]
  return [_plain(value, column.type) for value in values]


def _value(scalar: Any) -> Any:
  try:
    return scalar.as_py(maps_as_pydicts="strict")
  except UnicodeDecodeError as error:
    # Of a list too: the row is a bad one in any case.
    return error.object


def _plain(value: Any, kind: Any) -> Any:
  """Returns a value of an Arrow type as rows have it."""
  kind = getattr(kind, "storage_type", kind)
  if value is None or isinstance(value, (str, int)):
    return value
  if isinstance(value, float):
    # Spelled 3.8 where 32 bits are meant, not 3.799999952316284.
    bits = getattr(kind, "value_type", kind).bit_width
    return _NARROW.get(bits, float)(value)
  if isinstance(value, bytes):
    return value.decode("utf-8", errors="surrogateescape")
  if isinstance(value, list):
    return [_plain(part, kind.value_type) for part in value]
  if isinstance(value, dict):
    of_map = getattr(kind, "item_type", None)
    return {
      name: _plain(part, of_map or kind.field(name).type)
      for name, part in value.items()
    }
  return str(value)  # Dates, times, decimals.


# What pyarrow raises besides its own errors, as for a date after the year 9999.
_PYTHON_ERRORS = (OSError, ValueError, LookupError, ArithmeticError)
_NARROW = {16: np.float16, 32: np.float32}


@contextlib.contextmanager
def _explained(path: str, kind: str) -> Iterator[None]:
  """Turns what pyarrow raises for a damaged file into a UserError."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  try:
    yield
  except UserError:
    raise
  except (*_PYTHON_ERRORS, pa.ArrowException) as error:
    raise UserError(
      f"The data file {path!r} cannot be read as {_NAMES[kind]} "
      f"({reason_of(error).rstrip('.')}); check that it is whole and of this "
      "kind."
    ) from error
