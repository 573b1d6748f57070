"""Initial distributions of parameters, T5's first (T5X `layers.py`)."""

import functools

import gin
from jax.nn import initializers
from jax.nn.initializers import Initializer

fan_in_normal = initializers.variance_scaling(1.0, "fan_in", "normal")
fan_in_truncated_normal = initializers.variance_scaling(
  1.0, "fan_in", "truncated_normal"
)
# Of an embedding table: rows of length about 1 (Vaswani et al. 2017's code).
fan_out_normal = initializers.variance_scaling(1.0, "fan_out", "normal")
# Of vectors that each head has for itself, [H, R, K], rows of length about 1
# (Huang et al. 2018's code, tensor2tensor `get_relative_embeddings_left`).
fan_out_normal_of_heads = initializers.variance_scaling(
  1.0, "fan_out", "normal", batch_axis=0
)
fan_average_uniform = initializers.variance_scaling(1.0, "fan_avg", "uniform")
unit_normal = initializers.normal(stddev=1.0)
# Of what is added to a network that stays as it was (peft).
zeros = initializers.zeros
# One function for one deviation: models that are read twice are equal.
_normal = functools.cache(initializers.normal)
_truncated_normal = functools.cache(initializers.truncated_normal)
_variance_scaling = functools.cache(initializers.variance_scaling)


@gin.register(module="initializers")
def attention_query(
  head_dim: int, *, scaled: Initializer = fan_in_normal
) -> Initializer:
  """The distribution `scaled`, divided by sqrt(head_dim).

  T5 does not scale attention scores: the factor is folded into this
  distribution (Raffel et al. 2020, section 2.1; Mesh TensorFlow).
  """
  return _divided_by_root(head_dim, scaled)


@gin.register(module="initializers")
def normal(stddev: float) -> Initializer:
  """N(0, stddev^2), as GPT initialises every matrix with 0.02."""
  return _normal(stddev)


@gin.register(module="initializers")
def of_output(base_width: int) -> Initializer:
  """N(0, base_width / fan_in^2), of the softmax in muP (Yang et al. 2022).

  Within two deviations; at the base width it is `fan_in_truncated_normal`.
  """
  return _of_output(base_width)


@functools.cache
def _of_output(base_width: int) -> Initializer:
  def init(key, shape, dtype):
    return (
      fan_in_truncated_normal(key, shape, dtype)
      * (base_width / shape[-2]) ** 0.5
    )

  return init


@gin.register(module="initializers")
def truncated_normal(stddev: float) -> Initializer:
  """N(0, stddev^2) within two deviations, as BERT's code has it with 0.02."""
  return _truncated_normal(stddev)


@functools.cache
def _divided_by_root(number: int, initializer: Initializer) -> Initializer:
  def init(key, shape, dtype):
    return initializer(key, shape, dtype) * number**-0.5

  return init


@gin.register(module="initializers")
def residual_deviation(stddev: float, num_layers: int) -> float:
  """`stddev` / sqrt(2 * num_layers), for the matrices that end sublayers.

  A decoder-only layer adds to the residual stream twice (Radford et al. 2019,
  section 2.3).
  """
  return stddev / (2 * num_layers) ** 0.5


@gin.register(module="initializers")
def fixup_attention(num_sublayers: int) -> Initializer:
  """Glorot's uniform distribution, divided by num_sublayers^(1/6).

  Of queries, keys and values, four matrices in a row with the output's (Zhang
  et al. 2019, section 3; `fixup_layers.py` of Mesh TensorFlow).

  Args:
    num_sublayers: The number of sublayers of the whole model.
  """
  return _variance_scaling(num_sublayers ** (-1 / 3), "fan_avg", "uniform")


@gin.register(module="initializers")
def fixup_feed_forward(num_sublayers: int) -> Initializer:
  """He's uniform distribution, divided by sqrt(num_sublayers).

  Of the first of two matrices; as `fixup_attention` otherwise.
  """
  return _variance_scaling(2 / num_sublayers, "fan_in", "uniform")


gin.external_configurable(fan_in_normal, "fan_in_normal", module="initializers")
gin.external_configurable(
  fan_in_truncated_normal, "fan_in_truncated_normal", module="initializers"
)
gin.external_configurable(
  fan_out_normal, "fan_out_normal", module="initializers"
)
gin.external_configurable(
  fan_out_normal_of_heads, "fan_out_normal_of_heads", module="initializers"
)
gin.external_configurable(
  fan_average_uniform, "fan_average_uniform", module="initializers"
)
gin.external_configurable(zeros, "zeros", module="initializers")
