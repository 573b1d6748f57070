"""Where normalization and dropout stand around a sublayer."""

from transformer_zoo.modules import connections

# Strings show the order of what is applied; + is the residual sum.


class Term(str):
  def __add__(self, other):
    return Term(f"({str(self)} + {str(other)})")


def function(name):
  return lambda x: Term(f"{name}({str(x)})")


def connect(connection):
  return connection(
    Term("x"), function("f"), norm=function("norm"), dropout=function("drop")
  )


def test_pre_norm():
  assert connect(connections.pre_norm) == "(x + drop(f(norm(x))))"


def test_post_norm():
  assert connect(connections.post_norm) == "norm((x + drop(f(x))))"
