"""C4's rules for one page (Raffel et al. 2020, section 2.2), without Beam.

The text of the paper exists with two pairs of thresholds. JMLR 21(140) has
pages of at least 5 sentences and lines of at least 3 words; arXiv:1910.10683v4
has 3 sentences and 5 words, as has the code that made C4 (tensorflow_datasets
`text/c4_utils.py`, `_MIN_WORDS_PER_LINE`, `_MIN_NUM_SENTENCES`). The paper
looks for "lorem ipsum", curly brackets and bad words in the page, the code in
the lines that are left of it: `Rules.whole_page`.
"""

import collections
from collections.abc import Callable, Sequence
import dataclasses
import functools
import hashlib
import operator
import re

import gin

from transformer_zoo.cleaning import addresses
from transformer_zoo.errors import UserError


@gin.register
@dataclasses.dataclass(frozen=True)
class Sentencex:
  """Sentences by the rules of the library sentencex.

  TFDS builds C4 with NLTK's Punkt model, a download. The two differ where a
  full stop may belong to an abbreviation.

  Attributes:
    language: an ISO 639-1 code; sentencex knows about 300 languages.
  """

  language: str = "en"

  def __call__(self, line: str) -> list[str]:
    """Returns the sentences of a line, which together are the line."""
    import sentencex

    pieces = sentencex.segment(self.language, line)
    return [piece for piece in pieces if piece.strip()]


PAGES, LINES = "pages", "lines"  # that a rule dropped
TOTALS = "totals"  # what no rule dropped
DISCARDED = (TOTALS, "duplicate_spans")
UNMARKED = (TOTALS, "citation_marks")  # lines that had some
# (PAGES, LINES or TOTALS; the rule or total) -> number
Counts = collections.Counter[tuple[str, str]]


_END_MARKS = (".", "?", "!", '"')
_ELLIPSIS = "..."
_CITATION_MARK = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
_POLICIES = (
  "terms of use",
  "privacy policy",
  "cookie policy",
  "uses cookies",
  "use of cookies",
  "use cookies",
)


def without_citation_marks(line: str) -> str:
  """Removes `[1]`, `[]`, `[edit]`, `[citation needed]` and outer blanks."""
  marks = 1
  while marks:  # [[1]] leaves [].
    line, marks = _CITATION_MARK.subn("", line)
  return line.strip()


def ends_a_sentence(line: str) -> bool:
  """Whether a line ends in `.`, `?`, `!` or a quotation mark, not in `...`."""
  return line.endswith(_END_MARKS) and not line.endswith(_ELLIPSIS)


def has_words(line: str, least: int) -> bool:
  """Whether a line has so many words, which blanks separate."""
  return len(line.split()) >= least


def has_long_word(line: str, most: int) -> bool:
  """Whether a word has more characters than `most`."""
  return len(line) > most and any(len(word) > most for word in line.split())


def has_javascript(line: str) -> bool:
  """Whether a line has the word "javascript", in any case."""
  return "javascript" in line.lower()


def has_policy(line: str) -> bool:
  """Whether a line is about terms of use, privacy or cookies."""
  lowered = line.lower()
  return any(policy in lowered for policy in _POLICIES)


def has_lorem_ipsum(text: str) -> bool:
  """Whether "lorem ipsum" occurs, in any case."""
  return "lorem ipsum" in text.lower()


def has_curly_bracket(text: str) -> bool:
  """Whether `{` occurs."""
  return "{" in text


@dataclasses.dataclass(frozen=True)
class BadWords:
  """Words that spoil a page.

  Attributes:
    words: The words in lower case; each may have several parts.
    share: The share of the pages with such words that are dropped. TFDS: 1 for
      English, 0.999 for mC4; the hash of the address decides which ones.
  """

  words: tuple[str, ...]
  share: float = 1.0

  def drops(self, text: str, url: str) -> bool:
    """Whether a page is dropped."""
    if not _pattern(self.words).search(text.lower()):
      return False
    address = addresses.normalized(url) or text
    digest = int(hashlib.md5(address.encode()).hexdigest(), 16)
    numerator, denominator = self.share.as_integer_ratio()
    return digest % denominator < numerator


def read_words(content: str, path: str) -> tuple[str, ...]:
  """Reads a list of bad words, one word or phrase a line.

  Raises:
    UserError: it is empty.
  """
  words = {line.strip().lower() for line in content.split("\n")} - {""}
  if not words:
    raise UserError(f"The list of bad words {path!r} is empty.")
  return tuple(sorted(words))


@functools.cache
def _pattern(words: Sequence[str]) -> re.Pattern[str]:
  return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)")


@gin.register
@dataclasses.dataclass(frozen=True)
class Rules:
  """The rules by which lines of a page are kept.

  Attributes:
    min_words_per_line: shorter lines are dropped.
    min_sentences_per_page: pages with fewer, after all else, are dropped.
    whole_page: whether lorem ipsum, curly brackets and bad words are looked for
      in the page as it came, or in the lines that are left of it.
    max_word_length: a line with a longer word is dropped (TFDS: 1000).
    max_page_length: a page of more characters is dropped (TFDS: 190,000).
    bad_words_share: The share of `BadWords`.
    split: A function from a line to its sentences.
  """

  min_words_per_line: int = 5
  min_sentences_per_page: int = 3
  whole_page: bool = True
  max_word_length: int | None = None
  max_page_length: int | None = None
  bad_words_share: float = 1.0
  split: Callable[[str], list[str]] = Sentencex()

  def __post_init__(self):
    if not 0 <= self.bad_words_share <= 1:
      raise UserError(
        f"Rules.bad_words_share is {self.bad_words_share}; a share lies "
        "between 0 and 1."
      )

  def clean(
    self, text: str, url: str = "", bad_words: BadWords | None = None
  ) -> tuple[str | None, Counts]:
    """Cleans a page; cleaning the result again changes nothing.

    Args:
      text: lines, separated by whatever `str.splitlines` separates.
      url: The address of the page; it decides with `bad_words.share`.
      bad_words: pages that have one of them are dropped.

    Returns:
      The lines kept, None where the page is dropped, and what each rule
      dropped. A page is dropped by one rule, a line by one.
    """
    counts = Counts()
    found = [line.strip() for line in text.splitlines()]
    lines = [without_citation_marks(line) for line in found]
    counts[UNMARKED] += sum(map(operator.ne, found, lines))
    rule = self._find_spoiler(text, lines)
    kept: list[str] = []
    if rule is None:
      rule = self._keep_lines(lines, kept, counts)
    if rule is None and bad_words is not None:
      looked_at = "\n".join(lines if self.whole_page else kept)
      rule = "bad_word" if bad_words.drops(looked_at, url) else None
    if rule is not None:
      counts[PAGES, rule] += 1
      return None, counts
    return "\n".join(kept), counts

  def _find_spoiler(self, text: str, lines: Sequence[str]) -> str | None:
    """Returns the rule by which a page is dropped before its lines are."""
    if self.max_page_length and len(text) > self.max_page_length:
      return "too_long"
    if self.whole_page and any(map(has_lorem_ipsum, lines)):
      return "lorem_ipsum"
    if self.whole_page and has_curly_bracket(text):
      return "curly_bracket"
    return None

  def _keep_lines(
    self, lines: Sequence[str], kept: list[str], counts: Counts
  ) -> str | None:
    """Fills `kept` and `counts`; returns the rule that drops the page."""
    sentences = 0
    for line in lines:
      dropped, rule = self._check_line(line)
      if dropped == PAGES:
        return rule
      if dropped == LINES:
        counts[LINES, rule] += 1
        continue
      kept.append(line)
      sentences += len(self.split(line))
    few = sentences < max(1, self.min_sentences_per_page)
    return "few_sentences" if few else None

  def _check_line(self, line: str) -> tuple[str, str]:
    """Returns what a line drops, itself or its page, and by which rule.

    The order is TFDS's: a page is not dropped for a line that a rule further up
    drops.
    """
    if not line:
      return LINES, "blank"
    if self.max_word_length and has_long_word(line, self.max_word_length):
      return LINES, "long_word"
    if not ends_a_sentence(line):
      return LINES, "no_end_mark"
    if not has_words(line, self.min_words_per_line):
      return LINES, "few_words"
    if has_lorem_ipsum(line):
      return PAGES, "lorem_ipsum"
    if has_javascript(line):
      return LINES, "javascript"
    if has_curly_bracket(line):
      return PAGES, "curly_bracket"
    if has_policy(line):
      return LINES, "policy"
    return "", ""
