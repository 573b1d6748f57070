"""Examples to answer: where they come from, and where their answers go."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import json
import os
import pathlib
import sys
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.experiment import run_folder
from transformer_zoo.processes import distributed

Examples = Iterator[dict[str, Any]]


def chosen(
  words: Sequence[str], *, output: str | None, interactive: bool, scored: bool
) -> Examples:
  """The examples of a command line: `asked` if interactive, or `read`.

  Raises:
    UserError: words or an output are given though texts are asked for, or there
      is no folder for the output.
  """
  if interactive:
    if words or output:
      raise UserError(
        "--interactive takes neither texts nor files nor --output"
      )
    return asked(scored=scored)
  folder = os.path.dirname(output or "")
  if folder and not os.path.isdir(folder):
    raise UserError(f"there is no folder {folder!r} for the output")
  return read(words, scored=scored)


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


def journal_of(output: str | None) -> str | None:
  """The file that keeps answers until all can be written; None without one."""
  return None if output is None else f"{output}.journal"


def write(answers: Iterable[Mapping[str, Any]], output: str) -> None:
  """Writes JSON Lines, whole or not at all, and removes the journal.

  So does the first of several processes; all compute the answers.
  """
  text = "".join(f"{_line(answer)}\n" for answer in answers)
  if not distributed.is_first():
    return
  run_folder.replace(pathlib.Path(output), text)
  os.remove(journal_of(output))


def show(answers: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
  """Prints answers one by one: JSON Lines, or their texts alone."""
  for answer in answers:
    print(_line(answer) if as_json else answer["prediction"], flush=True)


def _line(answer: Mapping[str, Any]) -> str:
  return json.dumps(answer, ensure_ascii=False)


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
