"""Expressions `$(...)` in changes: the values of a suite, and arithmetic."""

import ast
from collections.abc import Mapping
import operator
import re

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_EXPRESSION = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_OPERATIONS = {
  ast.Add: operator.add,
  ast.Sub: operator.sub,
  ast.Mult: operator.mul,
  ast.Div: operator.truediv,
  ast.FloorDiv: operator.floordiv,
  ast.Pow: operator.pow,
}


def expand(text: str, values: Mapping[str, float | str]) -> str:
  """Replaces each `$(...)` by its value.

  Args:
    text: A text with any number of `$(...)`, which contain names, numbers,
      + - * / // ** and parentheses, nested at most once.
    values: The values by name. A value that is a text cannot be computed with.

  Raises:
    UserError: If a name is unknown, or the text between the parentheses is no
      such expression.
  """
  expanded = _EXPRESSION.sub(lambda m: str(_value(m[1], values)), text)
  if "$(" in expanded:
    raise UserError(f"{text!r} has a $( without an expression in parentheses")
  return expanded


def names(text: str) -> set[str]:
  """Returns the names in the expressions of a text."""
  return {
    node.id
    for found in _EXPRESSION.findall(text)
    for node in ast.walk(_parse(found))
    if isinstance(node, ast.Name)
  }


def _value(expression: str, values: Mapping[str, float | str]) -> float | str:
  tree = _parse(expression)
  try:
    return _of(tree, expression, values)
  except (TypeError, ArithmeticError) as error:
    raise UserError(f"$({expression}) cannot be computed: {error}") from error


def _parse(expression: str) -> ast.expr:
  try:
    return ast.parse(expression.strip(), mode="eval").body
  except SyntaxError as error:
    raise UserError(
      f"$({expression}) is no expression; write names, numbers and "
      "+ - * / // **, as $(2 * pretrain_steps)"
    ) from error


def _of(node: ast.expr, expression: str, values) -> float | str:
  match node:
    case ast.Constant(value=int() | float() as number):
      return number
    case ast.Name(id=name):
      if name not in values:
        raise UserError(
          f"$({expression}) names {name!r}, which is no value of the suite"
          f"{nearest(name, values)}"
        )
      return values[name]
    case ast.UnaryOp(op=ast.USub(), operand=operand):
      return -_of(operand, expression, values)
    case ast.BinOp(left=left, op=sign, right=right) if (
      type(sign) in _OPERATIONS
    ):
      one, other = (_of(side, expression, values) for side in (left, right))
      if isinstance(one, str) or isinstance(other, str):
        raise TypeError("a text is no number")
      return _OPERATIONS[type(sign)](one, other)
  raise UserError(
    f"$({expression}) has {ast.unparse(node)!r}; only names, numbers and "
    "+ - * / // ** are allowed"
  )
