"""Reads the entities of a sentence back from text with brackets.

    'EU rejects German call', '[ EU | ORG ] rejects [ German | MISC ] call'
    -> [('ORG', 0, 1), ('MISC', 2, 3)]

`tasks/tagging_formats.py` writes the form. Whatever a model writes is read as
far as it goes: its words are aligned with those of the sentence, so that a word
left out, added or misspelt spoils its own entity only.
"""

from collections.abc import Sequence
import difflib
import re

_OPEN, _DIVIDE, _CLOSE = "[", "|", "]"
_ESCAPED = re.compile(r"\[{2,}|\|{2,}|\]{2,}")
# Of an entity whose words are not in the sentence: predicted, and wrong.
_NOWHERE = (-1, -1)


def find_entities(
  text: str, tokens: Sequence[str]
) -> list[tuple[str, int, int]] | None:
  """Returns the entities that `text` marks among the words of a sentence.

  Brackets that are never closed, have no type or hold no word are not
  entities; an entity that is not a run of words of the sentence is kept, at
  (-1, -1), where it equals no true one.

  Args:
    text: as a model wrote it.
    tokens: the words of the sentence.

  Returns:
    (type, index of the first word, index after the last word) in the order of
    the text, as `tagging.entities`; None where `text` has no word of the
    sentence at all.
  """
  words, marked = _parse(text)
  place = _align(words, tokens)
  if not place and tokens:
    return None
  found = []
  for kind, start, stop in marked:
    places = [place.get(i, -1) for i in range(start, stop)]
    is_run = places == list(range(places[0], places[0] + len(places)))
    if is_run and places[0] >= 0:
      found.append((kind, places[0], places[-1] + 1))
    else:
      found.append((kind, *_NOWHERE))
  return found


def _parse(text: str) -> tuple[list[str], list[tuple[str, int, int]]]:
  """Returns the words without brackets, and the entities among them."""
  words, marked = [], []
  start, kind = None, None  # of the bracket that is open
  for piece in text.split():
    if piece == _OPEN:
      start, kind = len(words), None
    elif piece == _DIVIDE:
      if start is not None and kind is None:
        kind = []
    elif piece == _CLOSE:
      if kind and start < len(words):
        marked.append((" ".join(kind), start, len(words)))
      start, kind = None, None
    elif kind is not None:
      kind.append(piece)
    else:
      words.append(piece[1:] if _ESCAPED.fullmatch(piece) else piece)
  return words, marked


def _align(words: Sequence[str], tokens: Sequence[str]) -> dict[int, int]:
  """Returns the index in `tokens` of each word that is there, in order."""
  if list(words) == list(tokens):
    return {i: i for i in range(len(words))}
  matcher = difflib.SequenceMatcher(None, words, tokens, autojunk=False)
  return {
    block.a + i: block.b + i
    for block in matcher.get_matching_blocks()
    for i in range(block.size)
  }
