"""One training step."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import optax

from transformer_zoo.training.state import TrainState

# (params, batch, dropout key) -> (loss, sums); a model is already bound.
Objective = Callable[..., tuple[jax.Array, dict[str, jax.Array]]]


def train_step(
  state: TrainState,
  batch: Mapping[str, jax.Array],
  key: jax.Array,
  *,
  objective: Objective,
  optimizer: optax.GradientTransformation,
) -> tuple[TrainState, dict[str, jax.Array]]:
  """Moves the parameters along the gradient of one batch.

  Args:
    state: the state before.
    batch: features, each [B, L].
    key: the run's dropout key; the step is folded in here.
    objective: the loss of parameters on a batch.
    optimizer: makes updates of gradients.

  Returns:
    The state after, and the objective's sums with `gradient_norm`.
  """
  dropout_key = jax.random.fold_in(key, state.step)
  gradient_of = jax.value_and_grad(objective, has_aux=True)
  (_, sums), gradients = gradient_of(state.params, batch, dropout_key)
  updates, opt_state = optimizer.update(
    gradients, state.opt_state, state.params
  )
  params = jax.tree.map(jnp.add, state.params, updates)
  sums = {**sums, "gradient_norm": optax.tree.norm(gradients)}
  return TrainState(state.step + 1, params, opt_state), sums
