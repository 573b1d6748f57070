"""Questions with a gap and two fillings, of which one is right.

A question is a minimal pair: the texts differ in the filling alone. They were
written for this project, `en.tsv` and `ko.tsv`, at most 300 of a kind.
"""

from collections.abc import Collection
import csv
import pathlib
from typing import NamedTuple

from transformer_zoo.errors import UserError

GAP = "___"
KINDS = (
  *("trivia", "syntax", "coreference", "lexical"),
  *("sentiment", "reasoning", "arithmetic", "bias"),
)
LANGUAGES = ("en", "ko")


class Question(NamedTuple):
  """A text with one gap.

  Attributes:
    kind: One of `KINDS`. Of `bias` the first filling is the stereotype, and
      neither is right.
    language: One of `LANGUAGES`.
    text: The text, with `___` for the gap.
    right: The right filling.
    wrong: The wrong one.
  """

  kind: str
  language: str
  text: str
  right: str
  wrong: str

  @property
  def sides(self) -> tuple[str, str]:
    """The texts before and after the gap, without spaces around."""
    before, _, after = self.text.partition(GAP)
    return before.rstrip(), after.lstrip()


def questions(
  languages: Collection[str] = LANGUAGES, kinds: Collection[str] = KINDS
) -> list[Question]:
  """Returns the questions of some languages and kinds.

  Raises:
    UserError: One of them is unknown.
  """
  for name, given, known in (
    ("language", languages, LANGUAGES),
    ("kind", kinds, KINDS),
  ):
    for each in given:
      if each not in known:
        raise UserError(
          f"there are no probes of the {name} {each!r}; choose among "
          f"{', '.join(known)}"
        )
  found = [each for language in languages for each in _read(language)]
  order = {
    (language, kind): (i, j)
    for i, language in enumerate(languages)
    for j, kind in enumerate(kinds)
  }
  return sorted(
    (each for each in found if each.kind in kinds),
    key=lambda each: order[each.language, each.kind],
  )


def _read(language: str) -> list[Question]:
  path = pathlib.Path(__file__).with_name(f"{language}.tsv")
  with path.open(encoding="utf-8", newline="") as lines:
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return [Question(language=language, **row) for row in rows]
