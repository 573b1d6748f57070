"""Initial parameters, and models whose parts do not fit together."""

import re

import pytest

from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.training import state


@pytest.mark.parametrize(
  ("binding", "expected"),
  [
    (
      "NORM = @Mlp()",
      r"Mlp.__call__\(\) missing 1 required keyword-only argument: "
      r"'deterministic', in transformer_zoo\.modules\.\w+, line \d+;",
    ),
    (
      "EncoderLayer.mlp=@RMSNorm()",
      r"RMSNorm.__call__\(\) got an unexpected keyword argument "
      r"'deterministic', in transformer_zoo\.modules\.\w+, line \d+;",
    ),
    (
      "out/Linear.kernel_init=@initializers.attention_query",
      r"attention_query\(\) takes 1 positional argument but 3 .* were given, "
      r"in transformer_zoo\.modules\.\w+, line \d+;",
    ),
  ],
)
def test_a_part_of_another_kind_is_a_sentence(binding, expected):
  model, _ = tiny_models.build("t5_1_1", bindings=(binding,))
  with pytest.raises(UserError) as raised:
    state.abstract_variables(model)
  assert re.search(f"do not fit together: {expected}", str(raised.value))
  assert "\n" not in str(raised.value)
