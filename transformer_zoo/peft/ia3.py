"""IA3: activations times trained numbers (Liu et al. 2022, T-Few).

Keys, values and what enters the last projection of feed-forward networks, each
number times a trained one that begins at 1.
"""

from collections.abc import Mapping
import functools
import re
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.modules.linear import as_row
from transformer_zoo.modules.linear import Linear
from transformer_zoo.peft import exchange
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.substitution import Substitute


class _Scaled(Substitute):
  """A projection with trained factors (Liu et al. 2022, section 3.3)."""

  @nn.nowrap
  def unmerge(
    self, leaves: Mapping[str, Any], added: Mapping[str, Any]
  ) -> dict[str, Any]:
    """Takes the scales out of a projection; `merge` up to rounding."""
    _, before = self.merge({**leaves, "ia3_scale": 1 / added["ia3_scale"]})
    return before | added


class ScaledOutput(_Scaled, nn.Module, kw_only=True):
  """A projection each of whose outputs is multiplied by a trained number."""

  @nn.compact
  def __call__(self, x: jax.Array, features: int) -> jax.Array:
    """Maps [..., in] to [..., features]."""
    y = super().__call__(x, features)
    scale_F = self.param(
      "ia3_scale",
      axes.partitioned(nn.initializers.ones, self.kernel_axes[-1]),
      (features,),
      jnp.float32,
    )
    return y * as_row(scale_F, y)

  @nn.nowrap
  def merge(
    self, leaves: Mapping[str, Any]
  ) -> tuple[nn.Module, dict[str, Any]]:
    """As `Substitute.merge`."""
    leaves = dict(leaves)
    scale_F = leaves.pop("ia3_scale")
    leaves["kernel"] = leaves["kernel"] * scale_F[..., None, :]
    if "bias" in leaves:
      leaves["bias"] = leaves["bias"] * scale_F
    return substitution.unextended(self), leaves


class ScaledInput(_Scaled, nn.Module, kw_only=True):
  """A projection each of whose inputs is multiplied by a trained number."""

  @nn.compact
  def __call__(self, x: jax.Array, features: int) -> jax.Array:
    """Maps [..., in] to [..., features]."""
    scale_F = self.param(
      "ia3_scale",
      axes.partitioned(nn.initializers.ones, self.kernel_axes[0]),
      (x.shape[-1],),
      jnp.float32,
    )
    return super().__call__(x * as_row(scale_F, x), features)

  @nn.nowrap
  def merge(
    self, leaves: Mapping[str, Any]
  ) -> tuple[nn.Module, dict[str, Any]]:
    """As `Substitute.merge`."""
    leaves = dict(leaves)
    scale_F = leaves.pop("ia3_scale")
    leaves["kernel"] = leaves["kernel"] * scale_F[..., None]
    return substitution.unextended(self), leaves


def _read(directory: exchange.Directory) -> exchange.Imported:
  """Reads an IA3 of `peft`."""
  found, outputs, inputs = {}, [], []
  for module in directory.modules:
    width, widths = directory.widths(module)
    shapes = [(1, width), (sum(widths), 1)]
    vector = directory.take(f"{module.name}.ia3_l", shapes)
    if vector is None:
      continue
    parts = [vector.ravel()] * len(module.places)
    if vector.shape == (1, width):
      inputs += module.places
    else:
      outputs += module.places
      parts = np.split(vector.ravel(), len(module.places))
    for place, part in zip(module.places, parts, strict=True):
      found[f"{place}/ia3_scale"] = part
  outputs, inputs = map(exchange.names_of, (outputs, inputs))
  ones = functools.partial(np.ones, dtype=np.float32)
  directory.fill(found, outputs, lambda _, width: {"ia3_scale": ones(width)})
  directory.fill(found, inputs, lambda width, _: {"ia3_scale": ones(width)})
  return exchange.Imported(
    "peft/ia3.gin",
    {
      "IA3_OUTPUTS": exchange.expression_of(outputs),
      "IA3_INPUTS": exchange.expression_of(inputs),
    },
    found,
  )


def _write(trained: exchange.Trained) -> exchange.Written:
  """Writes a directory of `peft`."""
  inputs = {
    name
    for name, part in substitution.named_parts(trained.model)
    if isinstance(part, ScaledInput)
  }
  tensors, of_inputs = {}, []
  for module in trained.modules:
    first, *_ = module.places
    if not any(f"{place}/ia3_scale" in trained for place in module.places):
      continue
    if exchange.names_of([first])[0] in inputs:
      vector = trained[f"{first}/ia3_scale"][None]
      of_inputs.append(module.name)
    else:
      vector = np.concatenate(
        [
          trained[f"{place}/ia3_scale"]
          if f"{place}/ia3_scale" in trained
          else np.ones(trained.output_width(place), np.float32)
          for place in module.places
        ]
      )[:, None]
    tensors[f"{module.name}.ia3_l"] = vector
  return {
    "target_modules": sorted(n.removesuffix(".ia3_l") for n in tensors),
    "feedforward_modules": sorted(of_inputs),
    "fan_in_fan_out": trained.is_fused,
  }, tensors


_PEFT = exchange.Exchange(
  library=exchange.PEFT,
  kind="IA3",
  read=_read,
  write=_write,
  others="feedforward_modules|init_ia3_weights",
)
IA3 = Method(
  name="ia3",
  parts=(ScaledOutput, ScaledInput),
  adds=r".*/ia3_scale",
  exchanges=(_PEFT,),
)


@gin.register
def ia3(outputs: str, inputs: str) -> Rule:
  """Multiplies numbers of activations by trained ones.

  Args:
    outputs: A regular expression that matches the whole names of the
      projections whose outputs are scaled.
    inputs: The same of those whose inputs are scaled.
  """

  @IA3.rule(outputs, inputs, kind=Linear)
  def rule(name: str, part: nn.Module) -> nn.Module:
    is_output = re.fullmatch(outputs, name)
    return substitution.extended(
      part, ScaledOutput if is_output else ScaledInput
    )

  return rule
