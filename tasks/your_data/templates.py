"""Text with `{field}` in it, filled in from rows.

    Template("nli premise: {premise} choices: {choices.0}").fill(row)

A row is a mapping of fields to text, numbers, truth values, lists and mappings:
a line of a file, or an example of a TFDS data set. `{{` and `}}` are braces;
there are no conversions or format specifications, so any other character may
be part of a field's name.
"""

from collections.abc import Iterable, Mapping
import re
from typing import Any

import numpy as np

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


class RowProblem(Exception):
  """Says what is wrong with a row; the reader knows its file and line."""


class Template:
  """A text with fields.

  Attributes:
    text: The text as it was written.
    fields: The fields named in it, in order, each once.
    is_field: True if the text is one field and nothing else.
  """

  def __init__(self, text: str, what: str = "text"):
    """Reads a text with fields.

    Args:
      text: A text with fields in braces.
      what: The name of the text in errors.

    Raises:
      UserError: it is no text, or has a brace too many.
    """
    if not isinstance(text, str):
      raise UserError(f"The {what} {text!r} is no text with {{field}} in it.")
    self.text = text
    self._pieces = []  # (literal, None) or (None, field)
    for match in _PIECES.finditer(text):
      piece, field = match.group(), match.group(1)
      if field:
        self._pieces.append((None, field))
      elif piece in ("{{", "}}"):
        self._pieces.append((piece[0], None))
      elif piece in ("{", "}", "{}"):
        raise UserError(
          f"The {what} {text!r} has {piece!r} at character {match.start() + 1};"
          " a field is written {name}, a brace {{ or }}."
        )
      else:
        self._pieces.append((piece, None))
    fields = [field for _, field in self._pieces if field is not None]
    self.fields = tuple(dict.fromkeys(fields))
    self.is_field = len(fields) == len(self._pieces) == 1

  def __repr__(self) -> str:
    return f"Template({self.text!r})"

  def fill(self, row: Mapping[str, Any], may_be_empty: Iterable[str] = ()):
    """Returns the text with the row's values in it.

    Args:
      row: has the fields.
      may_be_empty: the fields that may have no text.

    Raises:
      RowProblem: a field is missing, empty, or no single value.
    """
    may_be_empty = tuple(may_be_empty)
    return "".join(
      literal
      if field is None
      else read_field(row, field, field in may_be_empty)
      for literal, field in self._pieces
    )


def read_field(
  row: Mapping[str, Any], field: str, may_be_empty: bool = False
) -> str:
  """Returns the value of a field as text.

  Numbers are written as Python writes them (files keep theirs as text), truth
  values `true` and `false`, as JSON writes them.

  Args:
    row: has the field.
    field: The name of the field; `a.b` is `b` within `a`, `a.0` the first
      element of `a`, unless a field has that name.
    may_be_empty: whether it may have no text.

  Raises:
    RowProblem: it is missing, empty, or no single value.
  """
  value = _find(row, field)
  if value is None and may_be_empty:
    return ""
  if value is None:
    raise RowProblem(f"has no value (null) in the field {field!r}")
  text = spell(value)
  if text is None:
    kind = "an object" if isinstance(value, Mapping) else "a list"
    raise RowProblem(
      f"has {kind} in the field {field!r} where one value is needed; name "
      f"a part of it, such as {field + '.0'!r}"
    )
  if not text.strip() and not may_be_empty:
    raise RowProblem(f"has an empty text in the field {field!r}")
  return text


def read_list(
  row: Mapping[str, Any],
  field: str,
  may_be_empty: bool = False,
  *,
  elements_may_be_empty: bool = False,
) -> list[str]:
  """Returns the values of a field that holds a list, or one value.

  Args:
    row: A row that has the field.
    field: The name of the field, as in `read_field`.
    may_be_empty: True to return an empty list for null.
    elements_may_be_empty: Whether a value may have no text.

  Raises:
    RowProblem: it is missing, or something in it is empty or no single value.
  """
  value = _find(row, field)
  if value is None and may_be_empty:
    return []
  fields = [field]
  if _is_list(value):
    fields = [f"{field}.{i}" for i in range(len(value))]
  return [read_field(row, name, elements_may_be_empty) for name in fields]


def _find(row: Mapping[str, Any], field: str) -> Any:
  """Returns the value at a path of names and places."""
  if field in row:
    return row[field]
  value = row
  for step in field.split("."):
    if isinstance(value, Mapping) and step in value:
      value = value[step]
    elif _is_list(value) and step.isdecimal() and int(step) < len(value):
      value = value[int(step)]
    else:
      raise RowProblem(f"has no field {field!r}" + nearest(field, row))
  return value


def _is_list(value: Any) -> bool:
  if isinstance(value, np.ndarray):
    return value.ndim > 0
  return isinstance(value, (list, tuple))


def spell(value: Any) -> str | None:
  """Returns a single value as text, None for anything else.

  Numbers are written as Python writes them, truth values as JSON does.

  Raises:
    RowProblem: it is bytes that are not UTF-8.
  """
  if isinstance(value, bytes):
    try:
      return value.decode("utf-8")
    except UnicodeDecodeError as error:
      raise RowProblem(f"has the text {value!r}, which is not UTF-8") from error
  if isinstance(value, (bool, np.bool_)):
    return "true" if value else "false"
  if isinstance(value, (str, int, float, np.number)):
    return str(value)
  return None
