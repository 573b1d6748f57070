"""Places of normalization and dropout around the sublayers."""

import pytest

from transformer_zoo.modules import connections

# Strings show the order of what is applied; + is the residual sum.


class Term(str):
  def __add__(self, other):
    return Term(f"({str(self)} + {str(other)})")

  def __radd__(self, other):
    return self if other == 0 else Term(f"({other} + {str(self)})")

  def __rmul__(self, number):
    return Term(f"{number} {str(self)}")


def function(name):
  return lambda x: Term(f"{name}({str(x)})")


@pytest.mark.parametrize(
  ("connection", "expected"),
  [
    (connections.pre_norm, "(x + drop(f(pre_f_layer_norm(x))))"),
    (
      connections.PreNormOfDepth(0.25),
      "(x + 0.25 drop(f(pre_f_layer_norm(x))))",
    ),
    (connections.post_norm, "post_f_layer_norm((x + drop(f(x))))"),
    (
      connections.residual_post_norm,
      "(x + drop(post_f_layer_norm(f(x))))",
    ),
    (
      connections.sandwich_norm,
      "(x + drop(post_f_layer_norm(f(pre_f_layer_norm(x)))))",
    ),
    (connections.parallel, "(x + drop(f(pre_layer_norm(x))))"),
    (connections.parallel_norms, "(x + drop(f(pre_f_layer_norm(x))))"),
  ],
)
def test_one_sublayer(connection, expected):
  assert expected == connection(
    Term("x"),
    {"f": function("f")},
    norm=function,
    dropout=function("drop"),
  )


@pytest.mark.parametrize(
  ("connection", "expected"),
  [
    (
      connections.pre_norm,
      "((x + f(pre_f_layer_norm(x))) + "
      "g(pre_g_layer_norm((x + f(pre_f_layer_norm(x))))))",
    ),
    (
      connections.parallel,
      "(x + (f(pre_layer_norm(x)) + g(pre_layer_norm(x))))",
    ),
    (
      connections.parallel_norms,
      "(x + (f(pre_f_layer_norm(x)) + g(pre_g_layer_norm(x))))",
    ),
  ],
)
def test_two_sublayers(connection, expected):
  assert expected == connection(
    Term("x"),
    {"f": function("f"), "g": function("g")},
    norm=function,
    dropout=lambda x: x,
  )
