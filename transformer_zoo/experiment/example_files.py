"""Examples to answer, from the command line, files, or standard input."""

from collections.abc import Iterable, Iterator, Sequence
import json
import os
import sys
from typing import Any

from transformer_zoo.errors import UserError

Examples = Iterator[dict[str, Any]]


def read(words: Sequence[str], *, scored: bool) -> Examples:
  """The examples in texts and files; those of standard input without any.

  Args:
    words: what names a file is read: in one that ends in .jsonl every line is
      an object, in any other a text. Anything else is a text itself.
    scored: whether a text may have targets after a tab.

  Raises:
    UserError: a file cannot be read, or a line of it is no object.
  """
  if not words:
    yield from _of_lines(sys.stdin.read().splitlines(), scored)
  for word in words:
    if not os.path.exists(word):
      yield from _of_lines([word], scored)
    elif word.endswith(".jsonl"):
      yield from _of_objects(_lines_of(word), word)
    else:
      yield from _of_lines(_lines_of(word), scored)


def asked(*, scored: bool) -> Examples:
  """Asks for one text after another on standard input."""
  return _of_lines(_typed(), scored)


def _typed() -> Iterator[str]:
  while True:
    print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
      return
    yield line.rstrip("\n")


def _of_lines(lines: Iterable[str], scored: bool) -> Examples:
  for line in lines:
    inputs, tab, targets = line.partition("\t")
    if scored and tab:
      yield {"inputs": inputs, "targets": targets}
    else:
      yield {"inputs": line}


def _of_objects(lines: Iterable[str], path: str) -> Examples:
  for number, line in enumerate(lines, 1):
    try:
      example = json.loads(line)
    except ValueError:
      example = None
    if not isinstance(example, dict):
      raise UserError(f"line {number} of {path!r} is no JSON object")
    yield example


def _lines_of(path: str) -> list[str]:
  try:
    with open(path, encoding="utf-8") as file:
      # Not `splitlines`: a text may contain other separators of lines.
      return [line.rstrip("\r\n") for line in file]
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(f"cannot read the input {path!r}: {error}") from error
