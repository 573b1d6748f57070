"""Initial parameters, and models whose parts do not fit together."""

import re

from flax import linen as nn
import gin
import jax
import pytest

from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.training import state
from transformer_zoo.training.monitoring import summary
from transformer_zoo.training.sharding.partitioning import Partitioning


@gin.register(module="tests")
class PlainMlp(nn.Module):
  """A feed-forward network as a newcomer writes it, without axes."""

  d_ff: int

  @nn.compact
  def __call__(self, x_BLD, *, deterministic):
    slope = self.param("slope", nn.initializers.ones, x_BLD.shape[-1:])
    hidden_BLF = nn.Dense(self.d_ff)(x_BLD * slope[None, None])
    return nn.Dense(x_BLD.shape[-1], use_bias=False)(hidden_BLF)


@pytest.mark.parametrize("scan", [False, True])
def test_plain_parameters_of_a_users_part_are_whole_on_every_device(scan):
  bindings = ("MLP=@PlainMlp()", "PlainMlp.d_ff=%MLP_DIM")
  model, _ = tiny_models.build(
    "t5_1_1", bindings=(*bindings, f"SCAN_LAYERS={scan}")
  )
  axes = {row["path"]: row["axes"] for row in summary.parameter_table(model)}
  plain = {path: names for path, names in axes.items() if "mlp/" in path}
  assert {path.rpartition("mlp/")[2] for path in plain} == {
    *("slope", "Dense_0/kernel", "Dense_0/bias", "Dense_1/kernel")
  }
  assert {*sum(plain.values(), [])} == {None}
  params = state.abstract_params(model)
  partitioning = Partitioning()
  shardings = partitioning.shardings(
    partitioning.mesh(), state.abstract_variables(model), params
  )
  assert jax.tree.structure(shardings) == jax.tree.structure(params)


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
