"""Linear maps over the last axis."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.modules import initializers
from transformer_zoo.modules import scalars

_INPUT_SHIFT = scalars.Shift()


@jax.custom_vjp
def project(x: jax.Array, kernel: jax.Array) -> jax.Array:
  """Returns x @ kernel, [..., in] by [in, out].

  The gradient of the kernel is written as x^T g. JAX derives (g^T x)^T, for
  which XLA on CPU computes g again element by element in transposed order;
  that made a whole training step a third slower. Elsewhere both are one dot.
  """
  return x @ kernel


def _project_forward(x, kernel):
  return x @ kernel, (x, kernel)


def _project_backward(residuals, gradient):
  x, kernel = residuals
  rows = tuple(range(x.ndim - 1))
  x_gradient = jax.lax.dot_general(
    gradient, kernel, (((x.ndim - 1,), (1,)), ((), ()))
  )
  kernel_gradient = jax.lax.dot_general(x, gradient, ((rows, rows), ((), ())))
  return x_gradient, kernel_gradient


project.defvjp(_project_forward, _project_backward)


def as_row(vector_F: jax.Array, like: jax.Array) -> jax.Array:
  """Returns a vector [F] with as many axes as an array, in its dtype."""
  shape = (1,) * (like.ndim - 1) + vector_F.shape
  return vector_F.astype(like.dtype).reshape(shape)


@gin.register
class Linear(nn.Module):
  """x @ kernel (+ bias), in the dtype of x; parameters are float32.

  Attributes:
    kernel_axes: logical axes of the kernel, (in, out); None for one that no
      mesh divides.
    kernel_init: distribution of the kernel.
    use_bias: whether to add a bias, initially 0.
    use_input_shift: whether a number is added to x first, initially 0 (Fixup:
      Zhang et al. 2019, section 3).
  """

  kernel_axes: tuple[str | None, str | None] = ("embed", "mlp")
  kernel_init: Callable = initializers.fan_in_truncated_normal
  use_bias: bool = False
  use_input_shift: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, features: int) -> jax.Array:
    """Maps [..., in] to [..., features]."""
    if self.use_input_shift:
      x = _INPUT_SHIFT.copy(name="input")(x)
    y = self.product(x, features)
    if self.use_bias:
      bias = self.param(
        "bias",
        axes.partitioned(nn.initializers.zeros, self.kernel_axes[-1]),
        (features,),
        jnp.float32,
      )
      y = y + as_row(bias, y)
    return y

  def product(self, x: jax.Array, features: int) -> jax.Array:
    """Returns x @ kernel, and makes the kernel."""
    kernel = self.param(
      "kernel",
      axes.partitioned(self.kernel_init, *self.kernel_axes),
      (x.shape[-1], features),
      jnp.float32,
    )
    return project(x, kernel.astype(x.dtype))

  def whole_kernel(self) -> jax.Array:
    """Returns the kernel that `product` has made, float32 [in, out]."""
    return nn.unbox(self.get_variable("params", "kernel"))
