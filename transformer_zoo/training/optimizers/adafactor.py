"""Adafactor as T5 uses it (Shazeer and Stern 2018).

optax's Adafactor follows the same rule on a parameter that stands alone, and a
test holds the two equal there. It differs on parameters stacked by a scan: it
clips and scales the whole stack by one root mean square. Here a leading
`layers` axis is a batch axis, so that scanned and looped layers train alike.
"""

from typing import NamedTuple

import gin
import jax
import jax.numpy as jnp
import optax

from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.schedules import Schedule


class FactoredMoment(NamedTuple):
  """Second moments of a matrix, kept as its row and column means.

  Attributes:
    v_row: means over the last axis, [..., rows].
    v_col: means over the axis before, [..., columns].
  """

  v_row: jax.Array
  v_col: jax.Array


class FullMoment(NamedTuple):
  """Second moments of every element.

  Attributes:
    v: shaped like the parameter.
  """

  v: jax.Array


class AdafactorState(NamedTuple):
  """State of the optimizer.

  Attributes:
    count: updates made so far, int32 scalar.
    moments: a tree like the parameters', of moments.
  """

  count: jax.Array
  moments: optax.Params


def _is_moment(node) -> bool:
  return isinstance(node, FactoredMoment | FullMoment)


def _root_mean_square(x: jax.Array, own_axes: tuple[int, ...]) -> jax.Array:
  return jnp.sqrt(jnp.mean(jnp.square(x), axis=own_axes, keepdims=True))


@gin.register
@shared.checked
def adafactor(
  learning_rate: Schedule,
  *,
  decay_exponent: float = 0.8,
  epsilon_squared_gradient: float = 1e-30,
  epsilon_parameter_scale: float = 1e-3,
  clipping_threshold: float = 1.0,
  min_dim_size_to_factor: int = 128,
  scale_by_parameter: bool = True,
  weight_decay: float = 0.0,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds Adafactor without momentum, with T5's constants.

  With t from 1, beta_t = 1 - t^-decay_exponent; the update is the gradient
  over the root of its second moment, clipped to a root mean square of
  `clipping_threshold`, times the learning rate, times the parameter's own root
  mean square (Mesh TensorFlow `optimize.py`, T5X `adafactor.py`).

  Args:
    learning_rate: a schedule.
    decay_exponent: The exponent of the decay of second moments; a larger one
      gives a longer memory.
    epsilon_squared_gradient: added to squared gradients.
    epsilon_parameter_scale: the least scale of a parameter.
    clipping_threshold: the largest root mean square of an update.
    min_dim_size_to_factor: A matrix is factored if both sides have it.
      Parameters of more axes, beside the stack's and the experts', are not;
      Mesh TensorFlow factors their two largest.
    scale_by_parameter: whether steps are relative to the parameter's scale.
    weight_decay: the share of a parameter that a step takes off, times the
      learning rate; 0 in T5, 1e-5 in prompt tuning.
    clip_norm: the largest norm of all gradients together, or None as in T5.
    state_dtype: The dtype of the moments; see `shared.with_state_dtype`.

  Returns:
    A transformation whose `update` needs the parameters.
  """

  def init_moment(path, parameter):
    axes = len(shared.own_axes(path, parameter)) - _lies_by_expert(path)
    shape = parameter.shape
    if axes == 2 and min(shape[-2:]) >= min_dim_size_to_factor:
      return FactoredMoment(
        v_row=jnp.zeros(shape[:-1], jnp.float32),
        v_col=jnp.zeros(shape[:-2] + shape[-1:], jnp.float32),
      )
    return FullMoment(v=jnp.zeros(shape, jnp.float32))

  def init(params):
    moments = jax.tree_util.tree_map_with_path(init_moment, params)
    return AdafactorState(count=jnp.zeros([], jnp.int32), moments=moments)

  def update(gradients, state, params=None):
    if params is None:
      raise ValueError("Adafactor needs the parameters to scale its updates")
    count = state.count + 1
    beta = 1.0 - count.astype(jnp.float32) ** -decay_exponent
    rate = learning_rate(state.count)

    def update_moment(moment, gradient):
      squared = jnp.square(gradient) + epsilon_squared_gradient
      if isinstance(moment, FullMoment):
        return FullMoment(beta * moment.v + (1.0 - beta) * squared)
      return FactoredMoment(
        v_row=beta * moment.v_row + (1.0 - beta) * jnp.mean(squared, axis=-1),
        v_col=beta * moment.v_col + (1.0 - beta) * jnp.mean(squared, axis=-2),
      )

    def step(path, moment, gradient, parameter):
      own = shared.own_axes(path, parameter)
      if isinstance(moment, FullMoment):
        u = gradient * jax.lax.rsqrt(moment.v)
      else:
        row_mean = jnp.mean(moment.v_row, axis=-1, keepdims=True)
        row_factor = jax.lax.rsqrt(moment.v_row / row_mean)
        col_factor = jax.lax.rsqrt(moment.v_col)
        u = gradient * row_factor[..., None] * col_factor[..., None, :]
      u_rms = _root_mean_square(u, own)
      scale = rate / jnp.maximum(1.0, u_rms / clipping_threshold)
      if scale_by_parameter:
        scale = scale * jnp.maximum(
          _root_mean_square(parameter, own), epsilon_parameter_scale
        )
      if weight_decay:
        return -scale * u - rate * weight_decay * parameter
      return -scale * u

    moments = jax.tree.map(
      update_moment, state.moments, gradients, is_leaf=_is_moment
    )
    updates = jax.tree_util.tree_map_with_path(
      step, moments, gradients, params, is_leaf=_is_moment
    )
    return updates, AdafactorState(count=count, moments=moments)

  optimizer = optax.GradientTransformation(init, update)
  clipped = shared.clipped(optimizer, clip_norm)
  return shared.with_state_dtype(clipped, state_dtype)


def _lies_by_expert(path) -> bool:
  """Whether the first axis of a parameter is of experts.

  Their matrices are factored one by one, and clipped and scaled together, as
  Mesh TensorFlow does.
  """
  return any(getattr(key, "key", None) == "expert" for key in path)
