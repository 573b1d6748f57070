"""Minimal pairs of sentences from files, as their authors distribute them.

BLiMP (Warstadt et al. 2020) is JSON Lines with `sentence_good`, `sentence_bad`
and `UID`, a file for each paradigm. CrowS-Pairs (Nangia et al. 2020) is CSV
with `sent_more`, `sent_less` and `bias_type`. WinoBias (Zhao et al. 2018) is
two texts, `pro_stereotyped_...` and `anti_stereotyped_...`, with the same
numbered sentences whose mentions stand in brackets. Pairs of one's own have
`good`, `bad` and perhaps `phenomenon`, as JSON Lines or CSV. A pair becomes a
`Question`: what both sentences begin and end with, and two fillings.
"""

from collections.abc import Iterator, Mapping
import csv
import json
import os
import pathlib
import re

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes.questions import GAP
from transformer_zoo.evaluation.probes.questions import Question

# The columns of the preferred sentence, of the other one, and of the kind.
FORMATS = (
  ("sentence_good", "sentence_bad", "UID"),
  ("sent_more", "sent_less", "bias_type"),
  ("good", "bad", "phenomenon"),
)

# How the files of WinoBias begin.
_PRO, _ANTI = "pro_stereotyped", "anti_stereotyped"


def read(path: str | os.PathLike[str]) -> list[Question]:
  """Returns the pairs of a file, in their order.

  Args:
    path: A file of JSON Lines (`.jsonl`), CSV (`.csv`) or TSV (`.tsv`), or the
      `pro_stereotyped_...` of the two files of WinoBias.

  Returns:
    A question for each pair, whose language is the name of the file and whose
    kind is the pair's phenomenon, or "all".

  Raises:
    UserError: The file cannot be read, has other columns, or has a row without
      two different sentences.
  """
  path = pathlib.Path(path)
  try:
    rows = list(_rows(path))
  except (OSError, UnicodeDecodeError, csv.Error) as error:
    raise UserError(f"cannot read the pairs {str(path)!r}: {error}") from error
  if not rows:
    raise UserError(f"the file {str(path)!r} has no pairs")
  return [
    _question(path, number, row) for number, row in enumerate(rows, start=1)
  ]


def _rows(path: pathlib.Path) -> Iterator[Mapping[str, str]]:
  if path.name.startswith(_PRO):
    yield from _wino_bias(path)
    return
  with path.open(encoding="utf-8-sig", newline="") as lines:
    if path.suffix in (".csv", ".tsv"):
      yield from csv.DictReader(
        lines, delimiter="\t" if path.suffix == ".tsv" else ","
      )
      return
    for number, line in enumerate(lines, start=1):
      if not line.strip():
        continue
      try:
        row = json.loads(line)
      except ValueError as error:
        raise UserError(
          f"{str(path)!r}, line {number}, is no JSON: {error}; pairs are a "
          "JSON object a line in .jsonl, or in .csv or .tsv with a header"
        ) from error
      yield row if isinstance(row, dict) else {}


def _wino_bias(path: pathlib.Path) -> Iterator[Mapping[str, str]]:
  """Yields the sentences of both files: the stereotype is the first."""
  other = path.with_name(_ANTI + path.name.removeprefix(_PRO))
  pro, anti = (
    [line for line in each.read_text("utf-8-sig").splitlines() if line.strip()]
    for each in (path, other)
  )
  if len(pro) != len(anti):
    raise UserError(
      f"{str(path)!r} has {len(pro)} sentences and {str(other)!r} has "
      f"{len(anti)}; the files of WinoBias have the same sentences"
    )
  for good, bad in zip(pro, anti, strict=True):
    yield {"good": _plain(good), "bad": _plain(bad)}


def _plain(line: str) -> str:
  """A sentence of WinoBias without its number and brackets."""
  return re.sub(r"[\[\]]", "", re.sub(r"^\s*\d+\s+", "", line)).strip()


def _question(path, number, row) -> Question:
  where = f"{str(path)!r}, pair {number},"
  columns = next((f for f in FORMATS if {*f[:2]} <= {*row}), None)
  if columns is None:
    raise UserError(
      f"{where} has the columns {', '.join(map(str, row)) or 'of no pair'}; a "
      "pair has "
      + ", or ".join(f"{good} and {bad}" for good, bad, _ in FORMATS)
    )
  *sentences, kind = (row.get(name) for name in columns)
  for name, sentence in zip(columns, sentences, strict=False):
    if not isinstance(sentence, str) or not sentence.strip():
      raise UserError(f"{where} has {name}={sentence!r}; it must be a sentence")
    if GAP in sentence:
      raise UserError(
        f"{where} has {name}={sentence!r}, and {GAP} is the mark of a gap; "
        "leave the pair out"
      )
  words = [sentence.split() for sentence in sentences]
  if words[0] == words[1]:
    raise UserError(f"{where} has the same sentence twice, {sentences[0]!r}")
  before, right, wrong, after = _divided(*words)
  text = " ".join([*before, GAP, *after])
  gaps = " ".join(right), " ".join(wrong)
  return Question(str(kind or "all"), path.stem, text, *gaps)


def _divided(good, bad) -> tuple[list[str], ...]:
  """Returns the words before, those of both gaps, and those after.

  Neither gap is empty: a word beside it belongs to it if need be.
  """
  shorter = min(len(good), len(bad))
  first = 0
  while first < shorter and good[first] == bad[first]:
    first += 1
  last = 0
  while last < shorter - first and good[-1 - last] == bad[-1 - last]:
    last += 1
  if first + last == shorter:
    first, last = (first, last - 1) if last else (first - 1, last)
  ends = len(good) - last, len(bad) - last
  return (
    good[:first],
    good[first : ends[0]],
    bad[first : ends[1]],
    good[ends[0] :],
  )
