"""Named entities in the tags of a sentence."""

from collections.abc import Sequence


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
    prefix, _, kind = tag.partition("-")
    if tag != "O" and (prefix not in ("B", "I") or not kind):
      raise ValueError(f"tag {tag!r} is none of O, B-<type> and I-<type>")
    kind = kind or None
    if open_type and (kind != open_type or prefix == "B"):
      found.append((open_type, start, i))
      open_type = None
    if kind and not open_type:
      start, open_type = i, kind
  return found
