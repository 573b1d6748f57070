"""Learning rates that depend on the names of parameters."""

from collections.abc import Callable, Sequence
import re

import gin
import jax
import optax

from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers import layer_wise
from transformer_zoo.training.optimizers.schedules import Schedule


@gin.register
def discriminative(
  learning_rate: Schedule,
  *,
  optimizer: Callable[..., optax.GradientTransformation],
  factors: Sequence[tuple[str, float]],
) -> optax.GradientTransformation:
  """Builds an optimizer whose rates differ by the names of parameters.

  Howard and Ruder 2018, section 3.2. The rate of a parameter is the rate of the
  schedule times the factor of the first expression that matches its whole name,
  1 if none does. Each layer has a name of its own,
  `encoder/layers_3/mlp/wi/kernel`.

  Args:
    learning_rate: a schedule.
    optimizer: makes the optimizer of a schedule; its state is the same.
    factors: ordered (regular expression, factor), 0 or more.

  Raises:
    UserError: an expression is none, a factor is negative, or, at `init`, an
      expression matches no parameter that is trained.
  """
  expressions = [expression for expression, _ in factors]
  parameter_names.check_expressions("discriminative.factors", expressions)
  for expression, factor in factors:
    if not factor >= 0:
      raise UserError(
        f"discriminative.factors: the factor of {expression!r} is {factor}; it "
        "has to be 0 or more"
      )
  inner = optimizer(learning_rate)

  def init(params):
    leaves = jax.tree_util.tree_leaves_with_path(params)
    names = [n for path, leaf in leaves for n in _names(path, leaf)]
    parameter_names.check_matches(
      "discriminative.factors", expressions, names, "parameter that is trained"
    )
    return inner.init(params)

  def factor_of(name: str) -> float:
    found = (f for known, f in factors if re.fullmatch(known, name))
    return next(found, 1.0)

  def update(gradients, state, params=None):
    updates, state = inner.update(gradients, state, params)
    return (
      jax.tree_util.tree_map_with_path(
        lambda path, leaf: layer_wise.times(
          [*map(factor_of, _names(path, leaf))], leaf
        ),
        updates,
      ),
      state,
    )

  return optax.GradientTransformation(init, update)


def _names(path, leaf) -> list[str]:
  """The names of the layers in a parameter."""
  name = "/".join(str(key.key) for key in path)
  return parameter_names.names_in(name, leaf.shape)
