"""Gradients that are clipped part by part, by the names of parameters."""

import collections
from collections.abc import Callable, Sequence
import re

import gin
import jax
import optax

from transformer_zoo import parameter_names
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
      is of the first part that matches, and parameters that match none are a
      part too.
    clip_norm: The largest norm of the gradients of one part.

  Raises:
    UserError: an expression is none, the norm is not above 0, or, at `init`, an
      expression matches no parameter that is trained.
  """
  if not clip_norm > 0:
    raise UserError(
      f"clipped_apart.clip_norm is {clip_norm}; it has to be above 0"
    )
  parameter_names.check_expressions("clipped_apart.parts", parts)
  inner = optimizer(learning_rate)
  clip = optax.clip_by_global_norm(clip_norm)

  def part_of(path) -> int:
    name = _name(path)
    found = (i for i, e in enumerate(parts) if re.fullmatch(e, name))
    return next(found, len(parts))

  def init(params):
    names = [_name(p) for p, _ in jax.tree_util.tree_leaves_with_path(params)]
    parameter_names.check_matches(
      "clipped_apart.parts", parts, names, "parameter that is trained"
    )
    return inner.init(params)

  def update(gradients, state, params=None):
    leaves, structure = jax.tree_util.tree_flatten_with_path(gradients)
    of_part = collections.defaultdict(dict)
    for number, (path, leaf) in enumerate(leaves):
      of_part[part_of(path)][number] = leaf
    small = {}
    for some in of_part.values():
      small |= clip.update(some, optax.EmptyState())[0]
    gradients = structure.unflatten(small[i] for i in range(len(leaves)))
    return inner.update(gradients, state, params)

  return optax.GradientTransformation(init, update)


def _name(path) -> str:
  """The name of a parameter; scanned layers are one."""
  return "/".join(str(key.key) for key in path)
