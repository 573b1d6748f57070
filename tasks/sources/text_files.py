"""A SeqIO source over files of text: plain, JSON Lines, Parquet or Arrow."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import itertools
import json
from typing import Any

import tensorflow as tf

from tasks.sources import arrow_files
from tasks.sources import line_files
from tasks.sources.line_files import BadRow
from transformer_zoo.errors import UserError


class TextFilesDataSource(line_files.LineFilesDataSource):
  """Documents `{'text': string}`, in the order of the files and their lines.

  A file whose name ends in `.jsonl` or `.json` (before an optional `.gz`) has
  a JSON object per line, one in `.parquet` or `.arrow` a column of documents,
  as has a folder that `datasets` saved; any other file is plain text with a
  document per line, or with blank lines between documents. A document may be
  of any length.
  """

  def __init__(
    self,
    split_to_pattern: Mapping[str, str | Sequence[str]],
    text_key: str = "text",
    documents: str = "lines",
  ):
    """Names the files; they are looked for when a split is first read.

    Args:
      split_to_pattern: a glob pattern per split, or several in their order,
        absolute or relative to a data folder or to the current one.
      text_key: The field of a JSON object, or the column, that holds the
        document.
      documents: The documents of plain text: 'lines', or 'paragraphs' between
        blank lines.

    Raises:
      UserError: `documents` is something else.
    """
    if documents not in _PLAIN:
      raise UserError(
        f"documents is {documents!r}; write 'lines' where each line of plain "
        "text is a document, 'paragraphs' where blank lines lie between them."
      )
    super().__init__(
      split_to_pattern,
      signature={"text": tf.TensorSpec((), tf.string)},
      content="document",
      settings=[text_key, documents],
    )
    self._text_key = text_key
    self._read_plain = _PLAIN[documents]

  def list_shards(self, split: str) -> list[str]:
    return arrow_files.expand(super().list_shards(split), split)

  def read(self, path: str) -> Iterator[dict[str, str] | BadRow]:
    """Yields the documents of one file and, in their places, its bad rows.

    Args:
      path: Parquet, Arrow, JSON Lines or plain text, the last two gzipped if
        its name ends in `.gz`.

    Raises:
      UserError: the file is unreadable or damaged, or lacks the column.
    """
    is_json = path.removesuffix(".gz").endswith((".jsonl", ".json"))
    kind = arrow_files.kind_of(path)
    if kind is not None:
      rows = arrow_files.read_rows(path, kind, [self._text_key])
    else:
      pieces = _lines if is_json else self._read_plain
      rows = (
        (line_files.line_name(first, path, last), text)
        for first, last, text in pieces(line_files.read_lines(path))
      )
    has_fields = is_json or kind is not None
    field = repr(self._text_key) if has_fields else "the text"
    for where, content in rows:
      try:
        record = _parse(content) if is_json else content
        text = _text_of(record, self._text_key) if has_fields else record
        if problem := line_files.find_problem(text):
          raise _NoText(f"has {problem}, in {field}")
      except _NoText as error:
        yield BadRow(f"{where} {error}")
      else:
        yield {"text": text}

  def documents(
    self, path: str, on_skipped: Callable[[str], None]
  ) -> Iterator[str]:
    """Yields the documents of one file, for `zoo prepare`; see `good_rows`."""
    for example in self.good_rows(path, on_skipped):
      yield example["text"]


def _lines(
  lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, int, str]]:
  """Yields the first and last line number and the text of each line."""
  for number, line in lines:
    if text := line.strip():
      yield number, number, text


def _paragraphs(
  lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, int, str]]:
  """Yields the same of the lines between blank ones."""
  blank = itertools.groupby(lines, lambda item: not item[1].strip())
  for is_blank, group in blank:
    if not is_blank:
      numbers, texts = zip(*group, strict=True)
      yield numbers[0], numbers[-1], "".join(texts).strip()


_PLAIN = {"lines": _lines, "paragraphs": _paragraphs}


class _NoText(Exception):
  """Says what is wrong with a line."""


def _parse(line: str) -> Any:
  """Returns the value of one line of JSON Lines."""
  try:
    return json.loads(line)
  except (ValueError, RecursionError) as error:
    reason = getattr(error, "msg", None) or str(error)
    raise _NoText(f"is not JSON ({reason})") from error


def _text_of(record: Any, text_key: str) -> str:
  """Returns the text of a row."""
  if not isinstance(record, dict) or not isinstance(record.get(text_key), str):
    raise _NoText(f"has no string {text_key!r}")
  if not record[text_key].strip():
    raise _NoText(f"has an empty text in {text_key!r}")
  return record[text_key]
