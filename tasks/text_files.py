"""A SeqIO source over text files: JSON Lines or plain text, gzip or not."""

from collections.abc import Iterator, Mapping
import json

import tensorflow as tf

from tasks import line_files
from tasks.line_files import BadRow


class TextFilesDataSource(line_files.LineFilesDataSource):
  """Documents `{'text': string}`, in the order of the files and their lines.

  A file whose name ends in `.jsonl` or `.json` (before an optional `.gz`) has
  a JSON object per line; any other file is plain text with a document per
  line. Blank lines are passed over; a document may be of any length.
  """

  def __init__(
    self, split_to_pattern: Mapping[str, str], text_key: str = "text"
  ):
    """Names the files; they are looked for when a split is first read.

    Args:
      split_to_pattern: a glob pattern per split, absolute or relative to a
        data folder or to the current one.
      text_key: the field of a JSON object that holds the document.
    """
    super().__init__(
      split_to_pattern,
      signature={"text": tf.TensorSpec((), tf.string)},
      content="document",
      settings=text_key,
    )
    self._text_key = text_key

  def read(self, path: str) -> Iterator[dict[str, str] | BadRow]:
    """Yields the documents of one file and, in their places, its bad rows.

    Args:
      path: JSON Lines or plain text, gzip if its name ends in `.gz`.

    Raises:
      UserError: the file is unreadable or damaged.
    """
    is_json = path.removesuffix(".gz").endswith((".jsonl", ".json"))
    for number, line in line_files.read_lines(path):
      if not line.strip():
        continue
      try:
        if is_json:
          text, where = _text_of(line, self._text_key), repr(self._text_key)
        else:
          text, where = line.strip(), "the text"
        if problem := line_files.find_problem(text):
          raise _NoText(f"has {problem}, in {where}")
      except _NoText as error:
        yield BadRow(f"{line_files.line_name(number, path)} {error}")
      else:
        yield {"text": text}


class _NoText(Exception):
  """Says what is wrong with a line."""


def _text_of(line: str, text_key: str) -> str:
  """Returns the text of one line of JSON Lines."""
  try:
    record = json.loads(line)
  except (ValueError, RecursionError) as error:
    reason = getattr(error, "msg", None) or str(error)
    raise _NoText(f"is not JSON ({reason})") from error
  if not isinstance(record, dict) or not isinstance(record.get(text_key), str):
    raise _NoText(f"has no string {text_key!r}")
  if not record[text_key].strip():
    raise _NoText(f"has an empty text in {text_key!r}")
  return record[text_key]
