"""Schedule-free AdamW (Defazio et al. 2024, "The road less scheduled").

The parameters of a run are the average that the paper evaluates, so that
evaluations, checkpoints and what starts from them need not know of it. The
gradient is taken between the average and the sequence that the steps move,
which is the optimizer's state.
"""

import functools

import gin
import jax
import jax.numpy as jnp
import optax
from optax import contrib

from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.schedules import Schedule


@gin.register
@shared.checked
def schedule_free(
  learning_rate: Schedule,
  *,
  average_share: float = 0.9,
  b2: float = 0.999,
  epsilon: float = 1e-8,
  weight_decay: float = 1e-4,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> shared.AtAnotherPoint:
  """Builds AdamW whose first moment is an average of parameters.

  Steps count in the average by the square of the largest rate before them.
  Matrices decay, as they are where the gradient is taken.

  Args:
    learning_rate: a schedule that rises and then stays.
    average_share: share of the average in the point of the gradient, the
      paper's beta, in the place of Adam's first one.
    b2: share of the second moment that each step keeps.
    epsilon: added to the root of the second moment.
    weight_decay: share of a matrix that is taken away, times the rate.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: The dtype of the state; see `shared.with_state_dtype`.

  Returns:
    A transformation whose `update` needs the parameters.
  """
  # Without a first moment, for which Adam would keep zeros.
  direction = optax.scale_by_rms(
    b2, epsilon, eps_in_sqrt=False, bias_correction=True
  )
  inner = contrib.schedule_free(
    optax.chain(
      direction,
      optax.add_decayed_weights(weight_decay, mask=shared.are_matrices),
      optax.scale_by_learning_rate(learning_rate),
    ),
    learning_rate,
    b1=average_share,
  )
  point = functools.partial(_between, average_share)

  def update(gradients, state, params=None):
    before = point(params, state)
    updates, state = inner.update(gradients, state, before)
    after = contrib.schedule_free_eval_params(
      state, jax.tree.map(jnp.add, before, updates)
    )
    return jax.tree.map(jnp.subtract, after, params), state

  steps = optax.GradientTransformation(inner.init, update)
  steps = shared.clipped(steps, clip_norm)
  steps = shared.with_state_dtype(steps, state_dtype)
  return shared.AtAnotherPoint(steps.init, steps.update, point)


def _between(share: float, params, state):
  """The point of the gradient, of the average and what the steps move."""
  return jax.tree.map(
    lambda average, moved: share * average + (1.0 - share) * moved,
    params,
    optax.tree.get(state, "z"),
  )
