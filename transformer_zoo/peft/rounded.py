"""A frozen base in fewer bits: kernels that are stored as whole numbers.

As in QLoRA (Dettmers et al. 2023) the kernels of a base are kept in few bits,
are multiplied out where they are used, in the dtype of the activations, and are
never trained; a method beside them is. Here the stored numbers lie evenly
between the extremes of a column, or of 64 rows of it (`tensors/rounding.py`),
where QLoRA's NF4 has quantiles of a normal distribution and rounds the scales
too. Checkpoints hold what the base's hold: kernels are rounded as they are
read.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.linear import Linear
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.substitution import Substitute
from transformer_zoo.tensors import rounding


@jax.custom_vjp
def _frozen_project(x, numbers, scales):
  """x @ kernel, whose backward pass keeps the stored kernel alone."""
  return x @ _multiplied_out(numbers, scales, x.dtype)


def _forward(x, numbers, scales):
  return _frozen_project(x, numbers, scales), (numbers, scales)


def _backward(stored, gradient):
  kernel = _multiplied_out(*stored, gradient.dtype)
  rows = ((gradient.ndim - 1,), (1,)), ((), ())
  return jax.lax.dot_general(gradient, kernel, rows), None, None


_frozen_project.defvjp(_forward, _backward)


def _multiplied_out(numbers, scales, dtype) -> jax.Array:
  """The kernel [in, out] in a dtype."""
  if scales is None:
    return numbers.astype(dtype)
  return rounding.restored(numbers, scales, jnp).astype(dtype)


class Rounded(Substitute, nn.Module, kw_only=True):
  """A projection whose kernel is kept in fewer bits and never trained.

  It has no initial values of its own: a checkpoint gives them.

  Attributes:
    bits: The bits of a number of the kernel, 16 (bfloat16), 8 or 4.
  """

  bits: int

  def product(self, x: jax.Array, features: int) -> jax.Array:
    """Returns x @ kernel, and makes what is stored of the kernel."""
    dtype = rounding.DTYPES[self.bits]
    shape, scales = (x.shape[-1], features), None
    if rounding.is_rounded(dtype):
      shape, of_scales = rounding.stored_shapes(dtype, *shape)
      init = self._zeros(None, self.kernel_axes[-1])
      scales = self.param("kernel_scale", init, of_scales, jnp.float32)
    numbers = self.param("kernel", self._zeros(*self.kernel_axes), shape, dtype)
    return _frozen_project(x, numbers, scales)

  def whole_kernel(self) -> jax.Array:
    """Returns the kernel that `product` has made, float32 [in, out]."""
    numbers = nn.unbox(self.get_variable("params", "kernel"))
    scales = nn.unbox(self.get_variable("params", "kernel_scale"))
    return _multiplied_out(numbers, scales, jnp.float32)

  @nn.nowrap
  def _zeros(self, *names: str | None):
    return axes.partitioned(nn.initializers.zeros, *names)

  @nn.nowrap
  def merge(
    self, leaves: Mapping[str, Any]
  ) -> tuple[nn.Module, dict[str, Any]]:
    """As `Substitute.merge`: the kernel in float32."""
    leaves = dict(leaves)
    scales = leaves.pop("kernel_scale", None)
    if scales is None:
      leaves["kernel"] = leaves["kernel"].astype(np.float32)
    else:
      leaves["kernel"] = rounding.restored(leaves["kernel"], scales)
    return substitution.unextended(self), leaves


ROUNDED = Method(name="rounded", parts=(Rounded,), adds=r".*/kernel_scale")


@gin.register
def rounded(projections: str, bits: int = 8) -> Rule:
  """Keeps the kernels of projections in fewer bits; they are never trained.

  Args:
    projections: A regular expression that matches their whole names.
    bits: The bits of a number, 16, 8 or 4; 32 leaves everything as it is.

  Raises:
    UserError: There is no such number, or a projection has a method already.
  """
  if bits not in (32, *rounding.DTYPES):
    raise UserError(
      f"rounded.bits is {bits}; a base is kept in 32, 16, 8 or 4 bits"
    )
  if bits == 32:
    return Rule(dataclasses.replace(ROUNDED, parts=()))

  @ROUNDED.rule(projections, kind=Linear)
  def rule(name: str, part: nn.Module) -> nn.Module:
    if isinstance(part, Substitute):
      raise UserError(
        f"rounded: {name!r} is a {type(part).__name__} already, of which the "
        "base alone is kept in fewer bits; bind substitute.base = @rounded(), "
        "as parts/rounded_base.gin does"
      )
    return substitution.extended(part, Rounded, bits=bits)

  return rule


def unrounded(model: nn.Module) -> nn.Module:
  """Returns a model with the base's kernels in float32."""

  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    part, extensions = substitution.taken_apart(part)
    for extend in extensions:
      extended = extend(part)
      part = part if type(extended).__bases__[0] is Rounded else extended
    return part

  return substitution.rebuilt(model, rule)
