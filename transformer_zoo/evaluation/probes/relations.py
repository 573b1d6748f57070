"""Facts with a gap for the object, from files as their authors distribute them.

LAMA (Petroni et al. 2019) has a JSON Lines file for each relation, with
templates in `relations.jsonl` beside their folder (T-REx) or with sentences of
their own (ConceptNet, SQuAD); Google-RE's templates are those of the paper's
code. mLAMA (Kassner et al. 2021) has a folder for each language, with
`templates.jsonl` in it.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import os
import pathlib
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes.questions import GAP
from transformer_zoo.schemas import Required

_SUBJECT, _OBJECT, _MASK = "[X]", "[Y]", "[MASK]"
_TEMPLATES = ("templates.jsonl", "relations.jsonl")
_GOOGLE_RE = {
  "place_of_birth": "[X] was born in [Y] .",
  "date_of_birth": "[X] (born [Y]).",
  "place_of_death": "[X] died in [Y] .",
}
_TEMPLATE = {"relation": Required(str), "template": Required(str)}
_ROW = {
  "obj_label": Required(str),
  "sub_label": str,
  "masked_sentences": [str],
  "judgments": [{"judgment": Required(str)}],
  "from_english": bool,
}
_LONGEST = 100  # words of a sentence without a template, in LAMA's code


@dataclasses.dataclass(frozen=True)
class Relation:
  """The facts of one file.

  Attributes:
    name: The name of the file, with that of its folder: `TREx/P19`, `de/P19`.
    facts: Texts with `___` for the gap, and the objects.
    objects: The objects that the relation has, in the file's order; empty if it
      has no template, as objects are then of no one kind.
  """

  name: str
  facts: Sequence[tuple[str, str]]
  objects: Sequence[str]


def read(path: str | os.PathLike[str]) -> list[Relation]:
  """Reads a file of facts, or all files of a folder that have any.

  A fact with a template stands once, however often the file has it; those that
  most judges of Google-RE deny, that mLAMA has in English alone, and sentences
  of more than 100 words are left out, as the authors do.

  Args:
    path: The path of a `.jsonl` file, or of a folder of them.

  Raises:
    UserError: The file cannot be read, has no facts, or one of its rows is none
      or has neither template nor sentence; the sentence names file and row.
  """
  path = pathlib.Path(path)
  files = [path]
  if path.is_dir():
    files = sorted(f for f in path.glob("*.jsonl") if f.name not in _TEMPLATES)
  found = [_relation(file) for file in files]
  if not any(relation.facts for relation in found):
    raise UserError(f"{str(path)!r} has no facts")
  return [relation for relation in found if relation.facts]


def _relation(path: pathlib.Path) -> Relation:
  name = path.stem.removesuffix("_test")
  template = _template(path, name)
  facts, objects = {}, {}
  for where, row in _rows(path, _ROW):
    text = _text(row, template, where)
    if text is None:
      continue
    answer = row["obj_label"].strip()
    facts[text, answer] = None
    if template is not None:
      objects[answer] = None
  return Relation(f"{path.parent.name}/{name}", list(facts), list(objects))


def _template(path: pathlib.Path, name: str) -> str | None:
  """The template of a relation; None if its sentences have gaps."""
  for folder in (path.parent, path.parent.parent):
    for file in (folder / each for each in _TEMPLATES):
      if not file.is_file():
        continue
      for where, row in _rows(file, _TEMPLATE):
        if row["relation"] == name:
          return _checked(row["template"], where)
  return _GOOGLE_RE.get(name)


def _checked(template: str, where: str) -> str:
  if template.count(_SUBJECT) != 1 or template.count(_OBJECT) != 1:
    raise UserError(
      f"{where} has template={template!r}; it takes {_SUBJECT} and {_OBJECT}, "
      "each once"
    )
  return template.strip()


def _text(row: Mapping[str, Any], template: str | None, where: str):
  """The text with its gap; None for a row that the authors leave out."""
  if not row["obj_label"].strip():
    raise UserError(f"{where} has obj_label={row['obj_label']!r}; it is a text")
  said = [each["judgment"] == "yes" for each in row.get("judgments", ())]
  if row.get("from_english") or 2 * sum(said) < len(said):
    return None
  if template is not None:
    if not row.get("sub_label", "").strip():
      raise UserError(f"{where} lacks sub_label, which its template names")
    subject = row["sub_label"].strip()
    return template.replace(_SUBJECT, subject).replace(_OBJECT, GAP)
  text = " ".join(row.get("masked_sentences", ()))
  if text.count(_MASK) != 1:
    raise UserError(
      f"{where} has {_MASK} {text.count(_MASK)} times in its masked_sentences, "
      f"and no file {' or '.join(_TEMPLATES)} has a template of the relation; "
      "it takes one of both"
    )
  if len(text.split()) > _LONGEST:
    return None
  return text.replace(_MASK, GAP)


def _rows(path: pathlib.Path, schema) -> Iterator[tuple[str, dict[str, Any]]]:
  """The rows of a file of JSON Lines, each with its place."""
  try:
    lines = path.read_text(encoding="utf-8-sig").split("\n")
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(f"cannot read the facts {str(path)!r}: {error}") from error
  for number, line in enumerate(lines, start=1):
    if line.strip():
      where = f"line {number} of {str(path)!r}"
      yield where, schemas.parsed(line, schema, where)
