"""Lion: the sign of a momentum (Chen et al. 2023), as optax computes it."""

import gin
import optax

from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.schedules import Schedule


@gin.register
@shared.checked
def lion(
  learning_rate: Schedule,
  *,
  b1: float = 0.9,
  b2: float = 0.99,
  weight_decay: float = 1e-3,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds Lion (Chen et al. 2023, algorithm 2) with optax's constants.

  It keeps one moment. Matrices decay; scales and biases do not.

  Args:
    learning_rate: a schedule; section 5 of the paper: 3 to 10 times lower than
      AdamW's.
    b1: share of the momentum in the direction; the rest is the gradient's.
    b2: share of the momentum that each step keeps.
    weight_decay: share of a matrix that is taken away, times the rate; 3 to 10
      times AdamW's.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: The dtype of the moments; see `shared.with_state_dtype`.

  Returns:
    A transformation whose `update` needs the parameters.
  """
  return shared.descending(
    optax.scale_by_lion(b1=b1, b2=b2),
    optax.add_decayed_weights(weight_decay, mask=shared.are_matrices),
    learning_rate=learning_rate,
    clip_norm=clip_norm,
    state_dtype=state_dtype,
  )
