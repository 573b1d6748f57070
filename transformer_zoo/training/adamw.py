"""AdamW (Loshchilov and Hutter 2019), as optax computes it."""

import gin
import jax
import optax

from transformer_zoo.training import rounded_state
from transformer_zoo.training.adafactor import own_axes
from transformer_zoo.training.schedules import Schedule


@gin.register
def adamw(
  learning_rate: Schedule,
  *,
  b1: float = 0.9,
  b2: float = 0.999,
  epsilon: float = 1e-8,
  weight_decay: float = 1e-4,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds AdamW with optax's constants, which T5X has too.

  Moments are corrected for their start at 0. Matrices decay; scales and biases
  do not.

  Args:
    learning_rate: a schedule.
    b1: share of the first moment that each step keeps.
    b2: share of the second moment that each step keeps.
    epsilon: added to the root of the second moment.
    weight_decay: share of a matrix that is taken away, times the rate.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: of the moments; see training/rounded_state.py.

  Returns:
    A transformation whose `update` needs the parameters.
  """
  clipping = [] if clip_norm is None else [optax.clip_by_global_norm(clip_norm)]
  optimizer = optax.chain(
    *clipping,
    optax.scale_by_adam(b1=b1, b2=b2, eps=epsilon),
    optax.add_decayed_weights(weight_decay, mask=_are_matrices),
    optax.scale_by_learning_rate(learning_rate),
  )
  return rounded_state.kept_in(optimizer, state_dtype)


def _are_matrices(params):
  return jax.tree_util.tree_map_with_path(
    lambda path, leaf: len(own_axes(path, leaf)) > 1, params
  )
