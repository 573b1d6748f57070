"""Shared parts of optimizers: clipped gradients, decayed matrices, state.

A parameter with more than one axis, the stack's left out, is a matrix; others
are scales and biases. So scanned and looped layers train alike.
"""

from collections.abc import Callable
import dataclasses
import functools
import inspect
import math

import jax
import optax

from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers.schedules import Schedule

STATE_DTYPES = ("float32", "bfloat16")
# What numbers of optimizers may be, by their names: a test and its words.
_SHARE = (lambda x: 0 <= x < 1, "at least 0 and below 1")
_AT_LEAST_0 = (lambda x: 0 <= x < math.inf, "a finite number of 0 or more")
_ABOVE_0 = (lambda x: 0 < x < math.inf, "a finite number above 0")
_COUNT = (lambda x: 1 <= x < math.inf, "at least 1")
_NORM = (_ABOVE_0[0], f"{_ABOVE_0[1]}; None clips nothing")
_ALLOWED = {
  **dict.fromkeys(("b1", "b2", "momentum"), _SHARE),
  **dict.fromkeys(("epsilon", "epsilon_squared_gradient"), _AT_LEAST_0),
  **dict.fromkeys(("epsilon_parameter_scale", "weight_decay"), _AT_LEAST_0),
  **dict.fromkeys(("decay_exponent", "min_dim_size_to_factor"), _AT_LEAST_0),
  "clipping_threshold": _ABOVE_0,
  "rms": _ABOVE_0,
  "average_share": (lambda x: 0 < x <= 1, "above 0 and at most 1"),
  "num_iterations": _COUNT,
  "clip_norm": _NORM,
}


@dataclasses.dataclass(frozen=True)
class AtAnotherPoint:
  """An optimizer whose gradients are not those at the parameters.

  Attributes:
    init: As of `optax.GradientTransformation`.
    update: The same; it is given the parameters.
    point: (parameters, state) -> where the gradient is taken.
  """

  init: optax.TransformInitFn
  update: optax.TransformUpdateFn
  point: Callable[[optax.Params, optax.OptState], optax.Params]


def checked(
  make: Callable[..., optax.GradientTransformation],
) -> Callable[..., optax.GradientTransformation]:
  """The function with its numbers checked, by their names.

  Args:
    make: an optimizer of a schedule. What it makes raises UserError, where a
      number is not what it may be.
  """
  signature = inspect.signature(make)

  @functools.wraps(make)
  def checking(*arguments, **keywords):
    for name, value in signature.bind(*arguments, **keywords).arguments.items():
      is_allowed, words = _ALLOWED.get(name, (lambda _: True, ""))
      if value is not None and not is_allowed(value):
        raise UserError(f"{make.__name__}.{name}={value} has to be {words}")
    return make(*arguments, **keywords)

  return checking


def own_axes(path, parameter) -> tuple[int, ...]:
  """Axes of a parameter that are not the stack's.

  Args:
    path: The path to the parameter, as JAX gives it.
    parameter: an array or its shape.
  """
  stacked = any(getattr(key, "key", None) == "layers" for key in path)
  return tuple(range(int(stacked), parameter.ndim))


def are_matrices(params):
  """A tree of booleans: True for parameters other than scales and biases.

  Biases of XLNet's scores have two axes, as their vectors are of each head.
  """
  return jax.tree_util.tree_map_with_path(
    lambda path, leaf: (
      len(own_axes(path, leaf)) > 1
      and not str(getattr(path[-1], "key", "")).endswith("_bias")
    ),
    params,
  )


def descending(
  *parts: optax.GradientTransformation,
  learning_rate: Schedule,
  clip_norm: float | None,
  state_dtype: str,
) -> optax.GradientTransformation:
  """An optimizer that steps against the direction that its parts make.

  Args:
    *parts: The transformations that make a direction of gradients, in order.
    learning_rate: a schedule.
    clip_norm: The norm that gradients are clipped to; see `clipped`.
    state_dtype: The dtype of the moments; see `with_state_dtype`.
  """
  steps = optax.chain(*parts, optax.scale_by_learning_rate(learning_rate))
  return with_state_dtype(clipped(steps, clip_norm), state_dtype)


def with_state_dtype(
  optimizer: optax.GradientTransformation, dtype: str
) -> optax.GradientTransformation:
  """Returns an optimizer with its state in a dtype.

  Args:
    optimizer: The optimizer, which computes in float32.
    dtype: One of `STATE_DTYPES`.

  Raises:
    UserError: The dtype is another.
  """
  if dtype not in STATE_DTYPES:
    raise UserError(
      f"unknown state_dtype {dtype!r} of an optimizer; allowed: "
      f"{', '.join(STATE_DTYPES)}"
    )
  if dtype == "float32":
    return optimizer
  from transformer_zoo.training.optimizers import rounded_state

  return rounded_state.in_bfloat16(optimizer)


def clipped(
  optimizer: optax.GradientTransformation, clip_norm: float | None
) -> optax.GradientTransformation:
  """The optimizer with gradients scaled down to a norm (Pascanu et al. 2013).

  Its state is the same with clipping and without.

  Args:
    optimizer: makes updates of the gradients.
    clip_norm: the largest norm of all gradients together, or None.
  """
  if clip_norm is None:
    return optimizer
  clip = optax.clip_by_global_norm(clip_norm)

  def update(gradients, state, params=None):
    gradients, _ = clip.update(gradients, optax.EmptyState())
    return optimizer.update(gradients, state, params)

  return optax.GradientTransformation(optimizer.init, update)
