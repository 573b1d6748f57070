"""Initial distributions of T5's parameters (T5X `layers.py`)."""

import gin
import jax
from jax.nn import initializers

fan_in_normal = initializers.variance_scaling(1.0, "fan_in", "normal")
fan_in_truncated_normal = initializers.variance_scaling(
  1.0, "fan_in", "truncated_normal"
)
fan_average_uniform = initializers.variance_scaling(1.0, "fan_avg", "uniform")
unit_normal = initializers.normal(stddev=1.0)


@gin.register(module="initializers")
def attention_query(head_dim: int) -> jax.nn.initializers.Initializer:
  """Fan-in normal divided by sqrt(head_dim).

  T5 does not scale attention scores: the factor is folded into this
  distribution (Raffel et al. 2020, section 2.1; Mesh TensorFlow).
  """

  def init(key, shape, dtype):
    return fan_in_normal(key, shape, dtype) * head_dim**-0.5

  return init


gin.external_configurable(
  fan_in_normal, name="fan_in_normal", module="initializers"
)
gin.external_configurable(
  fan_in_truncated_normal,
  name="fan_in_truncated_normal",
  module="initializers",
)
