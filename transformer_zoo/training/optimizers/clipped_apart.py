"""Gradients that are clipped part by part, by the names of parameters."""

from collections.abc import Callable, Sequence
import re

import gin
import jax
import jax.numpy as jnp
import optax

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers.schedules import Schedule


@gin.register
def clipped_apart(
  learning_rate: Schedule,
  *,
  optimizer: Callable[..., optax.GradientTransformation],
  parts: Sequence[str],
  clip_norm: float,
) -> optax.GradientTransformation:
  """Builds an optimizer of gradients that are scaled down part by part.

  The gradients of a part are scaled to a norm by their own norm, as if each
  part had an optimizer of its own: DeBERTa v3's generator and discriminator
  have (`RTDTask` of microsoft/DeBERTa 4d7fe0b).

  Args:
    learning_rate: a schedule.
    optimizer: makes the optimizer of a schedule, which clips nothing itself;
      its state is the same.
    parts: Regular expressions of whole names, like `generator/.*`; a parameter
      is of the first part that matches, and those of none are a part too.
    clip_norm: The largest norm of the gradients of one part.

  Raises:
    UserError: an expression is none, the norm is not above 0, or, at `init`, an
      expression matches no parameter that is trained.
  """
  if not clip_norm > 0:
    raise UserError(
      f"clipped_apart.clip_norm is {clip_norm}; it has to be above 0"
    )
  for expression in parts:
    try:
      re.compile(expression)
    except re.error as error:
      raise UserError(
        f"clipped_apart.parts: {expression!r} is no regular expression: {error}"
      ) from error
  inner = optimizer(learning_rate)

  def part_of(path) -> int:
    name = _name(path)
    found = (i for i, e in enumerate(parts) if re.fullmatch(e, name))
    return next(found, len(parts))

  def init(params):
    names = [_name(p) for p, _ in jax.tree_util.tree_leaves_with_path(params)]
    for expression in parts:
      if not any(re.fullmatch(expression, name) for name in names):
        raise UserError(
          f"clipped_apart.parts: {expression!r} matches (as a whole) no "
          f"parameter that is trained{nearest(expression, names)}"
        )
    return inner.init(params)

  def update(gradients, state, params=None):
    leaves = jax.tree_util.tree_leaves_with_path(gradients)
    factors = []
    for number in range(len(parts) + 1):
      norm = optax.tree.norm([x for p, x in leaves if part_of(p) == number])
      factors.append(jnp.where(norm > clip_norm, clip_norm / norm, 1.0))
    gradients = jax.tree_util.tree_map_with_path(
      lambda path, x: x * factors[part_of(path)].astype(x.dtype), gradients
    )
    return inner.update(gradients, state, params)

  return optax.GradientTransformation(init, update)


def _name(path) -> str:
  """The name of a parameter; scanned layers are one."""
  return "/".join(str(key.key) for key in path)
