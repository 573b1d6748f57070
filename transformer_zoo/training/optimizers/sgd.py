"""Stochastic gradient descent with momentum, as optax computes it."""

import gin
import optax

from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.schedules import Schedule


@gin.register
@shared.checked
def sgd(
  learning_rate: Schedule,
  *,
  momentum: float = 0.9,
  nesterov: bool = False,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds SGD with a momentum that adds up gradients (Sutskever et al. 2013).

  Args:
    learning_rate: a schedule.
    momentum: share of the sum of gradients that each step keeps; 0 forgets all.
    nesterov: whether the gradient is added once more before the step.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: The dtype of the moments; see `shared.with_state_dtype`.
  """
  return shared.descending(
    optax.trace(decay=momentum, nesterov=nesterov),
    learning_rate=learning_rate,
    clip_norm=clip_norm,
    state_dtype=state_dtype,
  )
