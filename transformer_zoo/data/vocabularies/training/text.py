"""Lines of text to learn a vocabulary from, in bounded memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
import dataclasses
import glob
import gzip
import json
import os
import random
import textwrap
from typing import Any

from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

_GZIP = b"\x1f\x8b"
_LONGEST = 2_000  # characters of a line; longer ones are cut at spaces
_HELD_OUT_EVERY = 100
_MOST_HELD_OUT = 10_000


@dataclasses.dataclass(frozen=True)
class Sample:
  """The text that a vocabulary is learned from and measured on.

  Attributes:
    lines: The lines to learn from.
    held_out: every hundredth line, or as many of them as are kept; `lines`
      where there are no hundred.
    num_lines: all lines of the text.
  """

  lines: list[str]
  held_out: list[str]
  num_lines: int


def find_files(patterns: Sequence[str]) -> list[str]:
  """Returns the files that match, pattern by pattern, each once.

  Raises:
    UserError: a pattern matches nothing.
  """
  found = {}
  for pattern in patterns:
    there = [pattern] if os.path.isfile(pattern) else glob.glob(pattern)
    there = sorted(path for path in there if os.path.isfile(path))
    if not there:
      raise UserError(f"no file matches {pattern!r}")
    found.update(dict.fromkeys(there))
  return list(found)


def read_lines(paths: Iterable[str], field: str = "text") -> Iterator[str]:
  """Yields lines without the spaces around them; empty ones are left out.

  A line of more than 2,000 characters is cut at spaces.

  Args:
    paths: text, or JSON Lines by the name of the file (.jsonl or .json, with or
      without .gz); either may be compressed by gzip.
    field: The field of the objects in JSON Lines that has the text.

  Raises:
    UserError: a file is no UTF-8, no JSON Lines, or lacks the field.
  """
  for path in paths:
    is_json = path.removesuffix(".gz").endswith((".jsonl", ".json"))
    for number, row in enumerate(_rows(path), 1):
      text = _text_of(row, path, number, field) if is_json else row
      for line in text.splitlines():
        yield from _pieces(line.strip())


def sample(lines: Iterable[str], most: int, seed: int) -> Sample:
  """Draws at most `most` lines, each with the same chance.

  Args:
    lines: a stream, read once.
    most: lines that are kept.
    seed: one seed and text give one sample.

  Raises:
    UserError: there are no lines.
  """
  learn, held_out = _Reservoir(most, seed), _Reservoir(_MOST_HELD_OUT, seed)
  number = 0
  for number, line in enumerate(lines, 1):
    (learn if number % _HELD_OUT_EVERY else held_out).offer(line)
  if not number:
    raise UserError("the text has no line to learn a vocabulary from")
  return Sample(learn.kept, held_out.kept or learn.kept, number)


class _Reservoir:
  """A uniform sample of a stream (Vitter 1985, algorithm R)."""

  def __init__(self, most: int, seed: int):
    self._most, self._random = most, random.Random(seed)
    self._seen = 0
    self.kept = []

  def offer(self, line: str) -> None:
    self._seen += 1
    if len(self.kept) < self._most:
      self.kept.append(line)
    elif (place := self._random.randrange(self._seen)) < self._most:
      self.kept[place] = line


def _rows(path: str) -> Iterator[str]:
  try:
    with open(path, "rb") as file:
      is_gzip = file.read(2) == _GZIP
    with (gzip.open if is_gzip else open)(path, "rt", encoding="utf-8") as rows:
      yield from rows
  except UnicodeDecodeError as error:
    raise UserError(f"{path!r} is not UTF-8 ({error.reason})") from None
  except (OSError, EOFError) as error:
    raise UserError(f"cannot read {path!r}: {error}") from None


def _text_of(row: str, path: str, number: int, field: str) -> str:
  try:
    text = json.loads(row)[field]
    if isinstance(text, str):
      return text
  except (ValueError, KeyError, TypeError, RecursionError):
    pass
  raise UserError(
    f"line {number} of {path!r} is no JSON object with a text {field!r}; name "
    "the field with --field"
  )


def _pieces(line: str) -> list[str]:
  if len(line) <= _LONGEST:
    return [line] if line else []
  return textwrap.wrap(
    line,
    _LONGEST,
    expand_tabs=False,
    replace_whitespace=False,
    break_on_hyphens=False,
  )


_SHOWN = 20
_AT_A_TIME = 1_000


def measure_vocabulary(
  vocabulary: Vocabulary, lines: Sequence[str]
) -> dict[str, Any]:
  """Returns figures of a vocabulary on `lines`, as JSON.

  `characters_per_token` and `bytes_per_token` show how much it compresses,
  `unknown_rate` the share of tokens that are unknown, `unused_rate` the share
  of ids that no line has, `most_frequent` the most frequent pieces as text with
  their share of the tokens.
  """
  counts = Counter()
  for start in range(0, len(lines), _AT_A_TIME):
    for ids in vocabulary.encode_batch(lines[start : start + _AT_A_TIME]):
      counts.update(ids)
  tokens = counts.total()
  return {
    "lines": len(lines),
    "tokens": tokens,
    "characters_per_token": sum(map(len, lines)) / tokens,
    "bytes_per_token": sum(len(line.encode()) for line in lines) / tokens,
    "unknown_rate": counts[vocabulary.unk_id] / tokens,
    "unused_rate": 1 - len(counts) / vocabulary.size,
    "most_frequent": [
      [vocabulary.decode([i]), count / tokens]
      for i, count in counts.most_common(_SHOWN)
    ],
  }
