"""Test suites of SyntaxGym: inequalities between surprisals of regions.

A suite (Gauthier et al. 2020, https://github.com/cpllab/syntactic-generalization)
is a JSON file with `items`; an item has the same sentence in several
`conditions`, each divided into `regions`, and the suite has `predictions`,
formulas like `(6;%match%) < (6;%mismatch%)`: the surprisal of region 6 in the
condition `match` is below that in `mismatch`; `*` names the whole sentence.
"""

import ast
from collections.abc import Iterable, Mapping
import operator
import os
import pathlib
import re
from typing import NamedTuple

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.schemas import Required

# The number that stands for a whole sentence.
WHOLE = "*"
_TERM = re.compile(r"\(\s*(\d+|\*)\s*;\s*%([^%]*)%\s*\)")
_OPERATORS = {
  ast.Add: operator.add,
  ast.BitAnd: operator.and_,
  ast.BitOr: operator.or_,
  ast.Eq: operator.eq,
  ast.Gt: operator.gt,
  ast.Lt: operator.lt,
  ast.Sub: operator.sub,
}
SUITE = {
  "meta": ({"name": (str, None)}, None),
  "predictions": Required([{"formula": Required(str)}]),
  "items": Required(
    [
      {
        "conditions": Required(
          [
            {
              "condition_name": Required(str),
              "regions": Required(
                [
                  {
                    "region_number": Required((int, str)),
                    "content": Required(str),
                  }
                ]
              ),
            }
          ]
        )
      }
    ]
  ),
}


class Region(NamedTuple):
  """A part of a sentence.

  Attributes:
    before: What stands before it.
    text: The part itself; it may be empty.
    after: What stands after it.
  """

  before: str
  text: str
  after: str


class Suite(NamedTuple):
  """A suite of items.

  Attributes:
    name: The name of the suite.
    predictions: The formulas.
    items: For each item the texts of the regions of each condition, in their
      order, by the condition's name and the region's number.
  """

  name: str
  predictions: tuple[str, ...]
  items: tuple[Mapping[str, Mapping[str, str]], ...]

  def regions(self) -> list[dict[tuple[str, str], Region]]:
    """Returns, for each item, the regions that the formulas name."""
    named = {
      (condition, number)
      for formula in self.predictions
      for number, condition in _TERM.findall(formula)
    }
    return [
      {key: _region(item[key[0]], key[1]) for key in sorted(named)}
      for item in self.items
    ]


def read(path: str | os.PathLike[str]) -> Suite:
  """Returns the suite of a file.

  Raises:
    UserError: The file cannot be read, or is no suite.
  """
  content = schemas.read(path, SUITE)
  name = (content.get("meta") or {}).get("name") or pathlib.Path(path).stem
  predictions = tuple(each["formula"] for each in content["predictions"])
  items = tuple(
    {
      condition["condition_name"]: {
        str(region["region_number"]): region["content"]
        for region in condition["regions"]
      }
      for condition in item["conditions"]
    }
    for item in content["items"]
  )
  suite = Suite(name, predictions, items)
  _check(suite, os.fspath(path))
  return suite


def holds(formula: str, surprisals: Mapping[tuple[str, str], float]) -> bool:
  """Returns whether a prediction holds for an item.

  Args:
    formula: The prediction.
    surprisals: The surprisal of each region by condition and number.

  Raises:
    UserError: The formula cannot be read.
  """
  values = {}

  def named(found):
    number, condition = found.groups()
    name = f"v{len(values)}"
    values[name] = surprisals[condition, number]
    return name

  text = _TERM.sub(named, formula).translate(str.maketrans("[]", "()"))

  def of(node):
    match node:
      case ast.Expression(body):
        return of(body)
      case ast.Name(name) if name in values:
        return values[name]
      case ast.Constant(int() | float() as number):
        return number
      case ast.UnaryOp(ast.USub(), operand):
        return -of(operand)
      case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
        return _OPERATORS[type(op)](of(left), of(right))
      case ast.Compare(left, [op], [right]) if type(op) in _OPERATORS:
        return _OPERATORS[type(op)](of(left), of(right))
    raise SyntaxError

  try:
    tree = ast.parse(
      re.sub("(?<![<>=])=(?!=)", "==", text).strip(), mode="eval"
    )
    return bool(of(tree))
  except SyntaxError as error:
    raise UserError(
      f"the prediction {formula!r} cannot be read; it has regions like "
      "(6;%condition%), numbers, + - < > = & | and brackets"
    ) from error


def _check(suite: Suite, where: str) -> None:
  """Raises UserError for formulas that name what an item lacks."""
  if not suite.items or not suite.predictions:
    raise UserError(f"the suite {where!r} has no items, or no predictions")
  for formula in suite.predictions:
    named = _TERM.findall(formula)
    for place, item in enumerate(suite.items, start=1):
      for number, condition in named:
        if condition not in item:
          raise UserError(
            f"{where!r}, item {place}, has no condition {condition!r}, which "
            f"the prediction {formula!r} names; it has {', '.join(item)}"
          )
        if number != WHOLE and number not in item[condition]:
          raise UserError(
            f"{where!r}, item {place}, has no region {number} in the condition "
            f"{condition!r}, which the prediction {formula!r} names"
          )
    holds(formula, {(condition, number): 0.0 for number, condition in named})


def _region(regions: Mapping[str, str], number: str) -> Region:
  if number == WHOLE:
    return Region("", _joined(regions.values()), "")
  names = [*regions]
  place = names.index(number)
  texts = [*regions.values()]
  return Region(
    _joined(texts[:place]), texts[place].strip(), _joined(texts[place + 1 :])
  )


def _joined(texts: Iterable[str]) -> str:
  return " ".join(text.strip() for text in texts if text.strip())
