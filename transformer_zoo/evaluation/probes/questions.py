"""Questions with a gap and two fillings, of which one is right.

A question is a minimal pair: the texts differ in the filling alone. They were
written for this project; templates are filled from lists, and at most
`MOST` of a kind are kept, drawn with a fixed seed.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
import zlib

from transformer_zoo.errors import UserError

GAP = "___"
MOST = 300
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
  from transformer_zoo.evaluation.probes import english
  from transformer_zoo.evaluation.probes import korean

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
  modules = {"en": english, "ko": korean}
  return [
    Question(kind, language, *each)
    for language in languages
    for kind in kinds
    for each in chosen(getattr(modules[language], kind)())
  ]


def chosen(
  written: Iterable[tuple[str, str, str]],
) -> list[tuple[str, str, str]]:
  """At most `MOST` of the questions, in their order, the same ones always."""
  written = list(dict.fromkeys(written))
  order = sorted(written, key=lambda each: zlib.crc32("\t".join(each).encode()))
  kept = set(order[:MOST])
  return [each for each in written if each in kept]


def others(items: Sequence[str], right: str, number: int = 1) -> list[str]:
  """The next items of a list after the right one, around its end."""
  place = items.index(right)
  return [items[(place + 1 + i) % len(items)] for i in range(number)]
