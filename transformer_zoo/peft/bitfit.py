"""BitFit: biases alone are trained (Ben Zaken et al. 2022).

Projections without a bias get one that is initially 0, as T-Few's code gives
them to T5.
"""

from collections.abc import Mapping
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.modules.linear import as_row
from transformer_zoo.modules.linear import Linear
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.substitution import Substitute


class Biased(Substitute, nn.Module, kw_only=True):
  """A projection without a bias, and a bias that is initially 0."""

  @nn.compact
  def __call__(self, x: jax.Array, features: int) -> jax.Array:
    """Maps [..., in] to [..., features]."""
    y = super().__call__(x, features)
    bias_F = self.param(
      "bitfit_bias",
      axes.partitioned(nn.initializers.zeros, self.kernel_axes[-1]),
      (features,),
      jnp.float32,
    )
    return y + as_row(bias_F, y)

  @nn.nowrap
  def merge(
    self, leaves: Mapping[str, Any]
  ) -> tuple[nn.Module, dict[str, Any]]:
    """As `Substitute.merge`: the projection has a bias of its own."""
    leaves = dict(leaves)
    leaves["bias"] = leaves.pop("bitfit_bias")
    return substitution.unextended(self).clone(use_bias=True), leaves

  @nn.nowrap
  def unmerge(
    self, leaves: Mapping[str, Any], added: Mapping[str, Any]
  ) -> dict[str, Any]:
    """Takes the bias out of a projection, which had none."""
    kept = {name: leaf for name, leaf in leaves.items() if name != "bias"}
    return kept | added


BITFIT = Method(
  name="biases",
  parts=(Biased,),
  adds=r".*/bitfit_bias",
  trains=r".*bias",
  may_find_nothing=True,  # Some models have all of their biases.
)


@gin.register
def biases(projections: str) -> Rule:
  """Gives projections without a bias one that is initially 0.

  Args:
    projections: A regular expression that matches their whole names.
  """

  @BITFIT.rule(projections, kind=Linear)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return part if part.use_bias else substitution.extended(part, Biased)

  return rule
