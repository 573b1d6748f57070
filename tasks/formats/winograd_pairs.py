"""Winograd schemas found again in the sentence pairs of WNLI.

A pair is a premise with a pronoun and a hypothesis that repeats a part of it
with a noun in the pronoun's place: what stands between the repeated parts is
the proposed referent. The rules, with all that they do to odd sentences, are
those of t5 `preprocessors.wnli_simple`.
"""

from collections.abc import Sequence
import re

_PRONOUNS = frozenset("he she they it her his their them him".split())
_PUNCTUATION = (".", ",", "!", "?")


def recast(premise: bytes, hypothesis: bytes) -> tuple[bytes, bytes]:
  """Returns the premise with its pronoun marked, and the proposed referent.

      'The drain is clogged with hair. It has to be cleaned.',
      'The drain has to be cleaned.'
      -> 'The drain is clogged with hair. *It* has to be cleaned.',
         'The drain'

  Of several pronouns it is the one around which the hypothesis repeats the
  most words, the first of equals.

  Args:
    premise: UTF-8 text.
    hypothesis: UTF-8 text.

  Raises:
    ValueError: the premise has no pronoun, or several spaces in a row before
      it, or signs that are no pattern; or the hypothesis divides the words of
      the referent otherwise than by one space.
  """
  premise, hypothesis = premise.decode(), hypothesis.decode()
  words, repeated = _words(premise), _words(hypothesis)
  places = [i for i, word in enumerate(words) if word in _PRONOUNS]
  if not places:
    raise ValueError(f"the premise {premise!r} has no pronoun")
  try:
    matches = [_match(words[:i], words[i + 1 :], repeated) for i in places]
  except re.error as error:
    raise ValueError(
      f"the premise {premise!r} has signs that are no pattern ({error})"
    ) from error
  best = max(range(len(places)), key=lambda i: matches[i][0])
  referent = _as_written(matches[best][1], hypothesis)
  return _mark(premise, places[best]).encode(), referent.encode()


def _words(text: str) -> list[str]:
  """Returns the lower-case words of `text`, one closing mark taken off each."""
  words = (re.sub(r"[.,?!]$", "", w) for w in text.strip().lower().split(" "))
  return [word for word in words if word]


def _match(
  before: Sequence[str], after: Sequence[str], hypothesis: Sequence[str]
) -> tuple[int, str]:
  """Returns how many words around a place are repeated, and what is between.

  Nothing is between where no word is repeated.
  """
  num_after = _num_repeated(after, hypothesis)
  num_before = _num_repeated(before[::-1], hypothesis[::-1])
  if not num_before + num_after:
    return 0, ""
  left = list(before[len(before) - num_before :])
  right = list(after[:num_after])
  # The place may be the start or the end of the hypothesis. The words are
  # patterns, as in t5: a full stop inside one matches any character.
  for pattern in (
    [*left, "(.+)", *right],
    ["^(.+)", *right],
    [*left, "(.+)$"],
  ):
    found = re.search(" ".join(pattern), " ".join(hypothesis))
    if found:
      return num_before + num_after, found.group(1)
  return num_before + num_after, ""


def _num_repeated(words: Sequence[str], within: Sequence[str]) -> int:
  """Returns how many leading words are, as one string, a part of `within`."""
  text = " ".join(within)
  for i in range(len(words)):
    if " ".join(words[: i + 1]) not in text:
      return i
  return len(words)


def _as_written(candidate: str, hypothesis: str) -> str:
  """Returns `candidate` as the hypothesis writes it, never as a possessive."""
  words = candidate.split(" ")
  # Where the match began too early, the noun phrase starts at an article.
  articles = [words.index(a) for a in ("a", "an", "the") if a in words]
  words = words[max(articles, default=0) :]
  pattern = " ".join(re.escape(word) + "[.,?!]?" for word in words)
  found = re.search(pattern, hypothesis, re.IGNORECASE)
  if not found:
    raise ValueError(
      f"the referent {candidate!r} is not so written in the hypothesis "
      f"{hypothesis!r}"
    )
  written = found.group()
  if written.endswith(_PUNCTUATION):
    written = written[:-1]
  if written.endswith("'"):
    return written[:-1]
  return written.removesuffix("'s")


def _mark(premise: str, place: int) -> str:
  """Returns the premise with asterisks around its word number `place`."""
  words = premise.split(" ")
  word, mark = words[place], ""
  if not word:
    raise ValueError(f"the premise {premise!r} has several spaces in a row")
  if word.endswith(_PUNCTUATION):
    word, mark = word[:-1], " " + word[-1]
  return " ".join([*words[:place], f"*{word}*{mark}", *words[place + 1 :]])
