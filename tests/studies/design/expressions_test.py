"""`$(...)` in changes."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import expressions

VALUES = {"steps": 1000, "rate": 0.5, "size": "sizes/tiny.gin", "group": "GLUE"}


@pytest.mark.parametrize(
  "text, expanded",
  [
    ("DROPOUT_RATE=0.0", "DROPOUT_RATE=0.0"),
    ("$(size)", "sizes/tiny.gin"),
    ("TRAIN_STEPS=$(steps)", "TRAIN_STEPS=1000"),
    ("TRAIN_STEPS=$( 4 * steps )", "TRAIN_STEPS=4000"),
    ("TRAIN_STEPS=$((steps - 40) // (2 + 5))", "TRAIN_STEPS=137"),
    ("RATE=$(-rate / 4)", "RATE=-0.125"),
    ("LENGTHS={'a': $(2 ** 5), 'b': $(steps)}", "LENGTHS={'a': 32, 'b': 1000}"),
    ("TASK='without_$(group)'", "TASK='without_GLUE'"),
  ],
)
def test_expressions_are_replaced(text, expanded):
  assert expressions.expand(text, VALUES) == expanded


def test_the_names_of_a_text():
  assert expressions.names("A=$(steps * 2) '$(group)' $(3)") == {
    "steps",
    "group",
  }


@pytest.mark.parametrize(
  "text, message",
  [
    (
      "$(stpes)",
      "$(stpes) names 'stpes', which is no value of the suite; did you mean "
      "'steps'?",
    ),
    ("$(2 * size)", "$(2 * size) cannot be computed: a text is no number"),
    ("$(steps // 0)", "$(steps // 0) cannot be computed: "),
    (
      "$(steps *)",
      "$(steps *) is no expression; write names, numbers and + - * / // **, "
      "as $(2 * pretrain_steps)",
    ),
    (
      "$(steps.real)",
      "$(steps.real) has 'steps.real'; only names, numbers and + - * / // ** "
      "are allowed",
    ),
    ("$('a')", """$('a') has "'a'"; only names"""),
    ("A=$(steps", "'A=$(steps' has a $( without an expression in parentheses"),
  ],
)
def test_what_is_no_expression_is_refused(text, message):
  with pytest.raises(UserError) as error:
    expressions.expand(text, VALUES)
  assert str(error.value).startswith(message)
