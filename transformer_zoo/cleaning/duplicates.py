"""Spans of text that occur again, on the same page or on another one.

Of a span that several pages have, the page that comes first keeps it. Pages are
ordered by hashes of their addresses, so that the order depends neither on how
the pages lie in files nor on how often a site has the text. A page that has to
give up a span may be the one that keeps another, which overlaps: then that
other one is decided in the next round, or it would be lost everywhere.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
import dataclasses
import hashlib
from typing import NamedTuple

import gin

from transformer_zoo.cleaning.rules import Sentencex
from transformer_zoo.errors import UserError

UNITS = ("sentence", "line")


class Unit(NamedTuple):
  """A sentence or line of a page.

  Attributes:
    line: The number of its line, from 0.
    text: The text with the blanks that follow it.
  """

  line: int
  text: str


class Claim(NamedTuple):
  """A page and a span that other pages have too.

  Attributes:
    start: place of the span's first unit in the page.
    span: The digest of the span.
    kept: whether the page comes first among those that have it.
  """

  start: int
  span: bytes
  kept: bool


def page_key(text: str, url: str) -> bytes:
  """Returns the key of the order of pages, and the identity of each."""
  return _md5(url) + _md5(text)


def claims_of_pages(
  span: bytes, places: Iterable[tuple[bytes, int]]
) -> Iterator[tuple[bytes, Claim]]:
  """Yields a claim for every page that has a span, if they are several.

  Args:
    span: a digest.
    places: key of a page and where in it the span begins.
  """
  places = list(places)
  first = min(places)
  if len(places) > 1:
    for place in places:
      key, start = place
      yield key, Claim(start, span, kept=place == first)


def spans_kept(claims: Iterable[Claim], length: int) -> Iterator[bytes]:
  """Yields the spans that a page keeps and that overlap none it gives up."""
  claims = list(claims)
  lost = {claim.start for claim in claims if not claim.kept}
  for claim in claims:
    near = range(claim.start - length + 1, claim.start + length)
    if claim.kept and lost.isdisjoint(near):
      yield claim.span


@gin.register
@dataclasses.dataclass(frozen=True)
class DuplicateSpans:
  """The spans that may not occur twice.

  The paper discards all but one of any three-sentence span; the code that made
  C4 (`c4_utils.remove_duplicate_text`) all but one of any line: length 1 and
  unit "line". Case and outer blanks do not count.

  Attributes:
    length: units in a span.
    unit: "sentence" or "line"; spans of sentences go across lines.
    split: A function from a line to its sentences.
  """

  length: int = 3
  unit: str = "sentence"
  split: Callable[[str], list[str]] = Sentencex()

  def __post_init__(self):
    if self.unit not in UNITS:
      raise UserError(
        f"DuplicateSpans.unit is {self.unit!r}; allowed: 'sentence', 'line'."
      )
    if self.length < 1:
      raise UserError(
        f"DuplicateSpans.length is {self.length}; a span has 1 unit or more."
      )

  def units(self, text: str) -> list[Unit]:
    """Returns the sentences or lines of a page in order."""
    found = []
    for number, line in enumerate(text.split("\n")):
      pieces = self.split(line) if self.unit == "sentence" else [line]
      found += [Unit(number, piece) for piece in pieces]
    return found

  def spans(self, text: str) -> list[bytes]:
    """Returns the digest of the span that begins at each unit."""
    plain = [unit.text.strip().lower() for unit in self.units(text)]
    return [
      _md5("\n".join(plain[start : start + self.length]))
      for start in range(len(plain) - self.length + 1)
    ]

  def discard(self, text: str, starts: Iterable[int]) -> str:
    """Returns the text without the spans that begin at `starts`."""
    lost = {start + k for start in starts for k in range(self.length)}
    return self._without_units(text, lost)

  def without_repeats(self, text: str) -> str:
    """Returns the text with the first of what a page has several times.

    Sentences that the first occurrence of a repeated span needs stay, so some
    repeats may be left where occurrences overlap: call it until nothing
    changes.
    """
    spans = self.spans(text)
    times = collections.Counter(spans)
    first, needed, lost = {}, set(), set()
    for start, span in enumerate(spans):
      if times[span] > 1:
        again = first.setdefault(span, start) != start
        (lost if again else needed).update(range(start, start + self.length))
    return self._without_units(text, lost - needed)

  def _without_units(self, text: str, lost: Set[int]) -> str:
    if not lost:
      return text
    units = self.units(text)
    return "\n".join(_join(units, lost))


def _join(units: Sequence[Unit], lost: Set[int]) -> Iterator[str]:
  """Yields the lines that units are left of."""
  lines = collections.defaultdict(str)
  for place, unit in enumerate(units):
    if place not in lost:
      lines[unit.line] += unit.text
  for line in lines.values():
    yield line.strip()


def _md5(text: str) -> bytes:
  return hashlib.md5(text.encode()).digest()
