"""A SeqIO source over column files, as the CoNLL shared tasks give their data.

A word a line, its annotations in columns, a blank line after each sentence.
"""

from collections.abc import Iterator, Mapping
import re
from typing import Any

import tensorflow as tf

from tasks.sources import line_files
from tasks.sources.line_files import BadRow
from transformer_zoo.evaluation.answers import tagged_text

_DOCUMENT_START = "-DOCSTART-"
# Other white space, such as a no-break space, may be part of a word.
_SEPARATOR = re.compile("[ \t]+")


class ColumnFilesDataSource(line_files.LineFilesDataSource):
  """Sentences `{'tokens': [n] strings, 'tags': [n] strings}`.

  Words and tags are the first and the last column. Lines that begin a document
  (`-DOCSTART-`) are passed over. A sentence is a bad row where a line of it has
  another number of columns than the first line of the file, or a tag that is
  none of O, B-<type> and I-<type>.
  """

  def __init__(self, split_to_pattern: Mapping[str, str]):
    """Names the files; they are looked for when a split is first read.

    Args:
      split_to_pattern: a glob pattern per split, absolute or relative to a
        data folder.
    """
    words = tf.TensorSpec((None,), tf.string)
    super().__init__(
      split_to_pattern,
      signature={"tokens": words, "tags": words},
      content="sentence",
      settings="columns",
    )

  def read(self, path: str) -> Iterator[dict[str, list[str]] | BadRow]:
    """Yields the sentences of one file and, in their places, its bad ones.

    Raises:
      UserError: the file is unreadable or damaged.
    """
    num_columns, rows, problem = None, [], None
    for number, line in line_files.read_lines(path):
      columns = _SEPARATOR.split(line.strip(" \t\r\n"))
      if columns[0] in ("", _DOCUMENT_START):
        yield from _sentence(rows, problem)
        rows, problem = [], None
        continue
      num_columns = num_columns or len(columns)
      if problem is None and (reason := _problem(line, columns, num_columns)):
        problem = f"{line_files.line_name(number, path)} {reason}"
      rows.append((columns[0], columns[-1]))
    yield from _sentence(rows, problem)


def _sentence(
  rows: list[tuple[str, str]], problem: str | None
) -> Iterator[dict[str, Any] | BadRow]:
  """Yields the sentence of some rows, if there are any."""
  if problem is not None:
    yield BadRow(problem)
  elif rows:
    tokens, tags = zip(*rows, strict=True)
    yield {"tokens": list(tokens), "tags": list(tags)}


def _problem(line: str, columns: list[str], num_columns: int) -> str | None:
  """Returns what is wrong with a line, to follow its name in a sentence."""
  if problem := line_files.find_problem(line):
    return f"has {problem}"
  if len(columns) < 2:
    return "has 1 column, where a word and its tag are needed"
  if len(columns) != num_columns:
    return f"has {len(columns)} columns, where the first line has {num_columns}"
  try:
    tagged_text.entities([columns[-1]])
  except ValueError as error:
    return f"has a bad {error}"
  return None
