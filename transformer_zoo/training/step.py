"""One training step."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import optax

from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.training import accumulation
from transformer_zoo.training.monitoring.norms import Norms
from transformer_zoo.training.state import TrainState


def train_step(
  state: TrainState,
  batch: Mapping[str, jax.Array],
  key: jax.Array,
  *,
  objective: accumulation.Objective,
  optimizer: optax.GradientTransformation,
  norms: Norms | None = None,
  trainable: Trainable = trainable_lib.ALL,
  **accumulating,
) -> tuple[TrainState, dict[str, jax.Array]]:
  """Moves the parameters along the gradient of one batch.

  Args:
    state: the state before.
    batch: features, each [B, L].
    key: the run's dropout key; the step is folded in here.
    objective: the terms of the loss of parameters on a batch.
    optimizer: makes updates of gradients.
    norms: The function of the norms to report (monitoring/norms.py).
    trainable: The parameters that are trained; no others have gradients.
    **accumulating: further arguments of `accumulation.gradients_of`.

  Returns:
    The state after, and the sums of `accumulation.gradients_of` with
    `gradient_norm`; with `norms` also `gradient_norms`, `update_norms` and, of
    the state before, `parameter_norms`.
  """
  dropout_key = jax.random.fold_in(key, state.step)
  trained = trainable.of(state.params)

  def loss_of(trained, *arguments):
    return objective(trainable.put(state.params, trained), *arguments)

  gradients, sums = accumulation.gradients_of(
    loss_of, trained, batch, dropout_key, **accumulating
  )
  gradients = trainable.without_others(gradients, state.params)
  updates, opt_state = optimizer.update(gradients, state.opt_state, trained)
  updates = trainable.due(updates, state.params, state.step)
  moved = jax.tree.map(jnp.add, trained, updates)
  params = trainable.put(state.params, moved)
  sums = {**sums, "gradient_norm": optax.tree.norm(gradients)}
  if norms is not None:
    nothing = jax.tree.map(jnp.zeros_like, state.params)
    sums["gradient_norms"] = norms(trainable.put(nothing, gradients))
    sums["parameter_norms"] = norms(state.params)
    sums["update_norms"] = norms(trainable.put(nothing, updates))
  return TrainState(state.step + 1, params, opt_state), sums
