"""Adam, AdamW (Loshchilov and Hutter 2019) and RAdam (Liu et al. 2020).

They are optax's.
"""

import gin
import jax
import jax.numpy as jnp
import optax

from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.schedules import Schedule


@gin.register
@shared.checked
def adam(
  learning_rate: Schedule,
  *,
  b1: float = 0.9,
  b2: float = 0.999,
  epsilon: float = 1e-8,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds Adam with the paper's constants.

  Moments are corrected for their start at 0.

  Args:
    learning_rate: a schedule.
    b1: share of the first moment that each step keeps.
    b2: share of the second moment that each step keeps.
    epsilon: added to the root of the second moment.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: The dtype of the moments; see `shared.with_state_dtype`.
  """
  return shared.descending(
    optax.scale_by_adam(b1=b1, b2=b2, eps=epsilon),
    learning_rate=learning_rate,
    clip_norm=clip_norm,
    state_dtype=state_dtype,
  )


@gin.register
@shared.checked
def radam(
  learning_rate: Schedule,
  *,
  b1: float = 0.9,
  b2: float = 0.999,
  epsilon: float = 1e-8,
  threshold: float = 5.0,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds RAdam (Liu et al. 2020, algorithm 2).

  The first steps follow the first moment alone, as long as the second one is of
  few gradients; then their length is rectified, in the place of a warm-up.

  Args:
    learning_rate: a schedule.
    b1: share of the first moment that each step keeps.
    b2: share of the second moment that each step keeps.
    epsilon: added to the root of the second moment.
    threshold: The length of the approximated moving average from which on the
      second moment is used; 4 in the paper, 5 in its code.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: The dtype of the moments; see `shared.with_state_dtype`.
  """
  return shared.descending(
    optax.scale_by_radam(b1=b1, b2=b2, eps=epsilon, threshold=threshold),
    learning_rate=learning_rate,
    clip_norm=clip_norm,
    state_dtype=state_dtype,
  )


@gin.register
@shared.checked
def adamw(
  learning_rate: Schedule,
  *,
  b1: float = 0.9,
  b2: float = 0.999,
  epsilon: float = 1e-8,
  weight_decay: float = 1e-4,
  bias_correction: bool = True,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds AdamW with optax's constants, which T5X has too.

  Matrices decay; scales and biases do not.

  Args:
    learning_rate: a schedule.
    b1: share of the first moment that each step keeps.
    b2: share of the second moment that each step keeps.
    epsilon: added to the root of the second moment.
    weight_decay: share of a matrix that is taken away, times the rate.
    bias_correction: Whether the moments are corrected for their start at 0.
      BERT's code does not (`optimization.py` of google-research/bert): without
      it the first hundreds of steps are up to six times as long.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: of the moments; see `shared.with_state_dtype`.

  Returns:
    A transformation whose `update` needs the parameters.
  """
  direction = optax.scale_by_adam(b1=b1, b2=b2, eps=epsilon)
  if not bias_correction:
    direction = _without_bias_correction(direction, epsilon)
  return shared.descending(
    direction,
    optax.add_decayed_weights(weight_decay, mask=shared.are_matrices),
    learning_rate=learning_rate,
    clip_norm=clip_norm,
    state_dtype=state_dtype,
  )


def _without_bias_correction(
  adam: optax.GradientTransformation, epsilon: float
) -> optax.GradientTransformation:
  """Adam's direction from the moments as they are; its state is the same.

  Args:
    adam: `optax.scale_by_adam`.
    epsilon: added to the root of the second moment.
  """

  def update(gradients, state, params=None):
    _, state = adam.update(gradients, state, params)
    direction = jax.tree.map(
      lambda first, second: first / (jnp.sqrt(second) + epsilon),
      state.mu,
      state.nu,
    )
    return direction, state

  return optax.GradientTransformation(adam.init, update)
