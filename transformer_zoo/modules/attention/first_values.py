"""Values of the first layer in the attention of all layers.

Value residuals (Zhou et al. 2024, "Value Residual Learning"); the stack is
modules/stacks/value_residual.py.
"""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.modules import scalars
from transformer_zoo.modules.parts import part


class FirstValues:
  """The values of the first layer on their way through one layer.

  Attributes:
    value_BLGK: The values of the first layer; in it, what is replaced.
  """

  def __init__(self, value_BLGK: jax.Array, is_first: jax.Array | bool):
    """Takes what enters the layer.

    Args:
      value_BLGK: The values of the first layer.
      is_first: Whether the layer is the first, a scalar.
    """
    self.value_BLGK = value_BLGK
    self._is_first = is_first

  def beside(self, value_BLGK: jax.Array) -> jax.Array:
    """Returns the values of the first layer, beside those of this layer."""
    self.value_BLGK = jnp.where(self._is_first, value_BLGK, self.value_BLGK)
    return self.value_BLGK


@gin.register
class ValueResidual(nn.Module):
  """The mix of a layer's values with those of the first layer.

  lambda_1 V_1 + lambda_2 V_n with two learned numbers of each layer, at first
  1/2: the paper's learnable ResFormer. In the first layer it is (lambda_1 +
  lambda_2) V_1, so that all layers have the same parameters; the paper's first
  layer has no such numbers, and these do not change the V_1 of later layers.

  Attributes:
    first: The factor of the first layer's values.
    own: The factor of this layer's values.
  """

  first: nn.Module = part(scalars.Scale, initial=0.5)
  own: nn.Module = part(scalars.Scale, initial=0.5)

  def __call__(
    self, value_BLGK: jax.Array, first_values: FirstValues
  ) -> jax.Array:
    """Returns the values that are attended to, [B, L, G, K].

    Args:
      value_BLGK: The values of this layer.
      first_values: Those of the first layer, which are taken from it.
    """
    first_BLGK = first_values.beside(value_BLGK)
    return self.first(first_BLGK) + self.own(value_BLGK)
