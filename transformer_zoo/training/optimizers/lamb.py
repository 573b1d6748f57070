"""LAMB: Adam's direction, as long as each layer's parameters (You et al. 2020).

optax's takes a scanned stack of layers for one layer. Here every layer has a
length of its own, and a test holds the two equal on layers that stand alone.
"""

import gin
import jax
import jax.numpy as jnp
import optax

from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.schedules import Schedule


@gin.register
@shared.checked
def lamb(
  learning_rate: Schedule,
  *,
  b1: float = 0.9,
  b2: float = 0.999,
  epsilon: float = 1e-6,
  weight_decay: float = 0.01,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds LAMB (You et al. 2020, algorithm 2) with the constants for BERT.

  Matrices decay and are scaled; as in its public code (google-research/albert
  `lamb_optimizer.py`), scales and biases take Adam's step as it is.

  Args:
    learning_rate: a schedule.
    b1: share of the first moment that each step keeps.
    b2: share of the second moment that each step keeps.
    epsilon: added to the root of the second moment.
    weight_decay: share of a matrix that is added to the direction before that
      is scaled.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: The dtype of the moments; see `shared.with_state_dtype`.

  Returns:
    A transformation whose `update` needs the parameters.
  """
  return shared.descending(
    optax.scale_by_adam(b1=b1, b2=b2, eps=epsilon),
    optax.add_decayed_weights(weight_decay, mask=shared.are_matrices),
    optax.stateless(_as_long_as_layers),
    learning_rate=learning_rate,
    clip_norm=clip_norm,
    state_dtype=state_dtype,
  )


def _as_long_as_layers(directions, params):
  """Directions of matrices with the norms of the matrices they change."""

  def scaled(path, direction, parameter, is_matrix):
    if not is_matrix:
      return direction
    own = shared.own_axes(path, parameter)
    length, wanted = _norm(direction, own), _norm(parameter, own)
    # A matrix of zeros would otherwise never move.
    ratio = jnp.where((wanted > 0) & (length > 0), wanted / length, 1.0)
    return direction * ratio

  return jax.tree_util.tree_map_with_path(
    scaled, directions, params, shared.are_matrices(params)
  )


def _norm(x: jax.Array, own_axes: tuple[int, ...]) -> jax.Array:
  return jnp.sqrt(jnp.sum(jnp.square(x), axis=own_axes, keepdims=True))
