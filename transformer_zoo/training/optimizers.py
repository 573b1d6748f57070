"""What optimizers share: clipped gradients, decayed matrices, their state.

A matrix is told from a scale or a bias by its axes, the stack's left out, so
that scanned and looped layers train alike.
"""

import jax
import optax

from transformer_zoo.errors import UserError
from transformer_zoo.training import rounded_state
from transformer_zoo.training.schedules import Schedule


def own_axes(path, parameter) -> tuple[int, ...]:
  """Axes of a parameter that are not the stack's.

  Args:
    path: to the parameter, as JAX has it.
    parameter: an array or its shape.
  """
  stacked = any(getattr(key, "key", None) == "layers" for key in path)
  return tuple(range(int(stacked), parameter.ndim))


def are_matrices(params):
  """Which parameters decay: all but scales and biases; a tree of booleans."""
  return jax.tree_util.tree_map_with_path(
    lambda path, leaf: len(own_axes(path, leaf)) > 1, params
  )


def descending(
  *parts: optax.GradientTransformation,
  learning_rate: Schedule,
  clip_norm: float | None,
  state_dtype: str,
) -> optax.GradientTransformation:
  """An optimizer that steps against the direction that its parts make.

  Args:
    *parts: of gradients a direction, one after the other.
    learning_rate: a schedule.
    clip_norm: see `clipped`.
    state_dtype: of the moments; see training/rounded_state.py.
  """
  steps = optax.chain(*parts, optax.scale_by_learning_rate(learning_rate))
  return rounded_state.kept_in(clipped(steps, clip_norm), state_dtype)


def clipped(
  optimizer: optax.GradientTransformation, clip_norm: float | None
) -> optax.GradientTransformation:
  """The optimizer with gradients scaled down to a norm (Pascanu et al. 2013).

  Its state is the same with clipping and without.

  Args:
    optimizer: makes updates of the gradients.
    clip_norm: the largest norm of all gradients together, or None.

  Raises:
    UserError: the norm is not above 0.
  """
  if clip_norm is None:
    return optimizer
  if clip_norm <= 0:
    raise UserError(
      f"clip_norm={clip_norm} of an optimizer has to be above 0; None clips "
      "nothing"
    )
  clip = optax.clip_by_global_norm(clip_norm)

  def update(gradients, state, params=None):
    gradients, _ = clip.update(gradients, optax.EmptyState())
    return optimizer.update(gradients, state, params)

  return optax.GradientTransformation(optimizer.init, update)
