"""Named entities of a sentence, from its tags or from text with brackets.

    'EU rejects German call', '[ EU | ORG ] rejects [ German | MISC ] call'
    -> [('ORG', 0, 1), ('MISC', 2, 3)]

`tasks/formats/tagging.py` writes the form. Whatever a model writes is read as
far as it goes: its words are aligned with the words of the sentence, so that a
word left out, added or misspelt spoils its own entity only.
"""

from collections.abc import Sequence
import difflib
import re
import unicodedata


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
  """Returns the entities that the tags of a sentence spell.

  Reads IOB1 (CoNLL-2003's own: `I-X` unless the entity follows another of its
  type, then `B-X`) and IOB2 (`B-X`, then `I-X`) alike, as `conlleval` does: an
  entity begins at `B-X`, and at `I-X` after another type or `O`.

  Args:
    tags: `O`, `B-<type>` or `I-<type>` of each word.

  Returns:
    (type, index of the first word, index after the last word) in order.

  Raises:
    ValueError: a tag is none of these.
  """
  found, start, open_type = [], 0, None
  for i, tag in enumerate([*tags, "O"]):
    if not _is_of_entities(tag):
      raise ValueError(f"tag {tag!r} is none of O, B-<type> and I-<type>")
    prefix, _, kind = tag.partition("-")
    kind = kind or None
    if open_type and (kind != open_type or prefix == "B"):
      found.append((open_type, start, i))
      open_type = None
    if kind and not open_type:
      start, open_type = i, kind
  return found


def _is_of_entities(tag: str) -> bool:
  return tag == "O" or bool(re.fullmatch("[BI]-.+", tag, re.DOTALL))


def marked(
  tokens: Sequence[str], tags: Sequence[str], names: Sequence[str]
) -> str:
  """Returns a sentence with its tags.

  Args:
    tokens: The words.
    tags: The tag of each word.
    names: All tags that a word may have. Where one of them is none of `O`,
      `B-<type>` and `I-<type>`, as the parts of speech are, the tags spell no
      entities, and each word stands with its own: `the/DET cat/NOUN`.
      Otherwise entities stand in brackets, as `bracketed` writes them.
  """
  if all(map(_is_of_entities, names)):
    return bracketed(tokens, tags)
  pairs = zip(tokens, tags, strict=True)
  return " ".join(f"{word}/{tag}" for word, tag in pairs)


def bracketed(tokens: Sequence[str], tags: Sequence[str]) -> str:
  """Returns a sentence with its entities in brackets.

  What `tasks.formats.tagging.bracketed` writes as targets.

  Args:
    tokens: The words.
    tags: `O`, `B-<type>` or `I-<type>` of each word.

  Raises:
    ValueError: a tag is none of these.
  """
  words = [
    word + word[0] if re.fullmatch(r"\[+|\]+|\|+", word) else word
    for word in tokens
  ]
  for kind, start, stop in entities(tags):
    words[start] = f"[ {words[start]}"
    words[stop - 1] = f"{words[stop - 1]} | {kind} ]"
  return " ".join(words)


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
    text: The text that a model wrote.
    tokens: the words of the sentence.

  Returns:
    (type, index of the first word, index after the last word) in the order of
    the text, as `tagging.entities`; None where `text` has no word of the
    sentence at all.
  """
  words, marked = _parse(text)
  pieces, first_of, last_of = _pieces(tokens)
  places = _align(words, pieces)
  if pieces and not places:
    return None
  found = []
  for kind, start, stop in marked:
    run = [places.get(i, -1) for i in range(start, stop)]
    is_run = run == list(range(run[0], run[0] + len(run)))
    # A part of a word is no entity.
    if is_run and run[0] in first_of and run[-1] in last_of:
      found.append((kind, first_of[run[0]], last_of[run[-1]] + 1))
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


def _pieces(
  tokens: Sequence[str],
) -> tuple[list[str], dict[int, int], dict[int, int]]:
  """Returns a sentence as a model writes it, its words as SentencePiece's.

  SentencePiece normalises text (NFKC), which may make several words of one.

  Returns:
    The words; for each that begins a word of the sentence, the index of that
    one; and the same for each that ends one.
  """
  pieces, first_of, last_of = [], {}, {}
  for i, token in enumerate(tokens):
    normalized = _normalize(token).split()
    if normalized:
      first_of[len(pieces)] = i
      pieces += normalized
      last_of[len(pieces) - 1] = i
  return pieces, first_of, last_of


def _align(words: Sequence[str], pieces: Sequence[str]) -> dict[int, int]:
  """Returns the index in `pieces` of each word that is there, in order."""
  words = [_normalize(word) for word in words]
  if words == pieces:
    return {i: i for i in range(len(words))}
  matcher = difflib.SequenceMatcher(None, words, pieces, autojunk=False)
  return {
    block.a + i: block.b + i
    for block in matcher.get_matching_blocks()
    for i in range(block.size)
  }


def _normalize(text: str) -> str:
  return unicodedata.normalize("NFKC", text)
