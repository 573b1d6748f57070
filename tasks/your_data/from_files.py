"""The calls that make a task of files of rows, one for each kind of file."""

from collections.abc import Callable, Mapping, Sequence
import functools
from typing import Any, ClassVar

import seqio

from tasks.your_data.registration import checks_arguments
from tasks.your_data.rows import MAX_ROW_BYTES
from tasks.your_data.rows import RowFiles

_checked = functools.partial(
  checks_arguments, options_of=lambda cls: cls._register
)


class FromFiles:
  """A task over rows of files; the subclasses document the arguments."""

  # (name, files, **options) to the registered task.
  _register: ClassVar[Callable[..., seqio.Task]]

  @classmethod
  @_checked
  def from_tsv(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    columns: Sequence[str] | None = None,
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> seqio.Task:
    """Registers a task over tab-separated files, which have no quoting."""
    columns = None if columns is None else tuple(columns)
    files = RowFiles(splits, "tsv", columns, max_row_bytes=max_row_bytes)
    return cls._register(name, files, **options)

  @classmethod
  @_checked
  def from_csv(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> seqio.Task:
    """Registers a task over CSV files, separated by `delimiter`."""
    columns = None if columns is None else tuple(columns)
    files = RowFiles(splits, "csv", columns, delimiter, max_row_bytes)
    return cls._register(name, files, **options)

  @classmethod
  @_checked
  def from_jsonl(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> seqio.Task:
    """Registers a task over JSON Lines files."""
    files = RowFiles(splits, "jsonl", max_row_bytes=max_row_bytes)
    return cls._register(name, files, **options)

  @classmethod
  @_checked
  def from_parquet(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> seqio.Task:
    """Registers a task over Parquet files."""
    files = RowFiles(splits, "parquet", max_row_bytes=max_row_bytes)
    return cls._register(name, files, **options)

  @classmethod
  @_checked
  def from_arrow(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> seqio.Task:
    """Registers a task over Arrow files or folders that `datasets` saved."""
    files = RowFiles(splits, "arrow", max_row_bytes=max_row_bytes)
    return cls._register(name, files, **options)
