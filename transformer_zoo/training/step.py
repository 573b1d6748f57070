"""One training step, and its gradients at once or part by part.

A part of a batch needs the activations of its own rows alone. The gradient
equals the gradient of the whole batch: every term is divided by its weight in
the whole batch, so that rows of any weight count as they do together, and a row
is dropped out alike in any part.
"""

from collections.abc import Callable, Mapping
import functools

import jax
import jax.numpy as jnp
import optax

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
from transformer_zoo.objectives import terms as terms_lib
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.training.monitoring.norms import Norms
from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.state import TrainState

# (params, batch, dropout key) -> terms; a model is already bound.
LossOfParameters = Callable[..., terms_lib.Terms]


def train_step(
  state: TrainState,
  batch: Mapping[str, jax.Array],
  key: jax.Array,
  *,
  objective: LossOfParameters,
  optimizer: optax.GradientTransformation,
  norms: Norms | None = None,
  trainable: Trainable = trainable_lib.ALL,
  takes_updates: bool = False,
  **accumulating,
) -> tuple[TrainState, dict[str, jax.Array]]:
  """Moves the parameters along the gradient of one batch.

  Args:
    state: the state before.
    batch: features, each [B, L].
    key: the run's dropout key; the step is folded in here.
    objective: the terms of the loss of parameters on a batch.
    optimizer: makes updates of gradients; one of extra arguments is given the
      parameters of the whole model as `of_model`. `shared.AtAnotherPoint` says
      where the gradient is taken; others take it at the parameters.
    norms: The function of the norms to report (monitoring/norms.py).
    trainable: The parameters that are trained; no others have gradients.
    takes_updates: Whether the objective takes `updated`, the function from
      gradients of all parameters to the parameters after an update by them.
    **accumulating: further arguments of `gradients_of`.

  Returns:
    The state after, and the sums of `gradients_of` with
    `gradient_norm`; with `norms` also `gradient_norms`, `update_norms` and, of
    the state before, `parameter_norms`.
  """
  dropout_key = jax.random.fold_in(key, state.step)
  trained = point = trainable.select(state.params)
  if isinstance(optimizer, shared.AtAnotherPoint):
    point = optimizer.point(trained, state.opt_state)
  optimizer = optax.with_extra_args_support(optimizer)

  def update(gradients):
    gradients = trainable.without_others(gradients, state.params)
    updates, opt_state = optimizer.update(
      gradients, state.opt_state, trained, of_model=state.params
    )
    updates = trainable.updates_at(updates, state.params, state.step)
    moved = jax.tree.map(jnp.add, trained, updates)
    return gradients, updates, trainable.replace(state.params, moved), opt_state

  if takes_updates:
    objective = functools.partial(
      objective,
      updated=lambda gradients: update(trainable.select(gradients))[2],
    )

  def loss_of(trained, *arguments, **parts):
    params = trainable.replace(state.params, trained)
    return objective(params, *arguments, **parts)

  gradients, sums = gradients_of(
    loss_of, point, batch, dropout_key, **accumulating
  )
  gradients, updates, params, opt_state = update(gradients)
  sums = {**sums, "gradient_norm": optax.tree.norm(gradients)}
  if norms is not None:
    nothing = jax.tree.map(jnp.zeros_like, state.params)
    sums["gradient_norms"] = norms(trainable.replace(nothing, gradients))
    sums["parameter_norms"] = norms(state.params)
    sums["update_norms"] = norms(trainable.replace(nothing, updates))
  return TrainState(state.step + 1, params, opt_state), sums


def gradients_of(
  objective: LossOfParameters,
  params,
  batch: Mapping[str, jax.Array],
  key: jax.Array,
  *,
  num_microbatches: int = 1,
  lay_out: Callable = lambda gradients: gradients,
  takes_parts: bool = False,
):
  """Gradients and sums of one batch.

  The gradients of the parts are added up in the dtype of the parameters. They
  are gradients of the terms before the division by their weights, each times
  the ratio of the first term's weight to its own, and divided once by the
  first's.

  Args:
    objective: the terms of the loss of parameters on a batch.
    params: float32.
    batch: features, each [B, ...].
    key: The dropout key of the step.
    num_microbatches: The number of parts that are computed one after another; a
      divisor of B.
    lay_out: puts gradients where they are added up.
    takes_parts: Whether the objective is given the whole batch and takes
      `in_parts`, by which it computes what depends on single rows.

  Returns:
    The gradients of the loss, and the sums of the terms (`terms.sums`) with the
    loss itself as `loss`.
  """
  if takes_parts and num_microbatches > 1:
    whole = functools.partial(in_parts, num_microbatches)
    objective = functools.partial(objective, in_parts=whole)
  if takes_parts or num_microbatches == 1:

    def divided(params):
      terms = objective(params, batch, key)
      return terms_lib.loss(terms), terms

    gradients, terms = jax.grad(divided, has_aux=True)(params)
    return lay_out(gradients), _sums(terms)

  parts = jnp.arange(num_microbatches), split(batch, num_microbatches)
  rows = {name: x[0] for name, x in parts[1].items()}
  shapes = jax.eval_shape(objective, params, rows, key)
  ratios = _ratios_of_weights(objective, params, batch, key, shapes)

  def undivided(params, rows):
    terms = objective(params, rows, key)
    return sum(terms[name].total * ratios[name] for name in terms), terms

  def of_part(part):
    index, rows = part
    with dropout.microbatch(index, num_microbatches):
      gradients, terms = jax.grad(undivided, has_aux=True)(params, rows)
    return lay_out(gradients), terms

  def add(totals, part):
    return jax.tree.map(jnp.add, totals, of_part(part)), None

  def zeros(shapes):
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

  nothing = lay_out(zeros(params)), zeros(shapes)
  (gradients, terms), _ = jax.lax.scan(add, nothing, parts)
  divisor = terms[next(iter(shapes))].divisor
  return jax.tree.map(lambda g: g / divisor, gradients), _sums(terms)


def in_parts(
  number: int,
  of_rows: Callable[[Mapping[str, jax.Array]], tuple],
  batch: Mapping[str, jax.Array],
) -> tuple:
  """Computes what depends on single rows part by part.

  Of a part nothing but the result is kept: its activations are computed once
  more when its gradient is known. Rows are dropped out alike in both.

  Args:
    number: The number of parts.
    of_rows: A function of some rows, whose result is a tree of arrays [B, ...]
      and a tree of sums over rows.
    batch: features, each [B, ...].

  Returns:
    The arrays of all rows in their order, and the sums over all of them.
  """

  @jax.checkpoint
  def of_part(index, rows):
    with dropout.microbatch(index, number):
      return of_rows(rows)

  arrays, sums = jax.lax.map(
    lambda part: of_part(*part), (jnp.arange(number), split(batch, number))
  )
  return jax.tree.map(_joined, arrays), jax.tree.map(
    lambda x: jnp.sum(x, axis=0), sums
  )


def _joined(parts: jax.Array) -> jax.Array:
  """The rows of parts that `split` dealt out, in their order."""
  rows = jnp.moveaxis(parts, 0, 1).reshape(-1, *parts.shape[2:])
  return axes.constrain(rows, "batch", *[None] * (rows.ndim - 1))


def _ratios_of_weights(objective, params, batch, key, shapes) -> dict:
  """Returns each term's factor where all are divided by the first's weight."""
  first, *others = shapes
  ratios = {first: shapes[first].scale}
  if others:
    # Weights depend on the batch alone: nothing else of this is computed.
    whole = objective(params, batch, key)
    for name in others:
      ratio = whole[first].divisor / whole[name].divisor
      ratios[name] = shapes[name].scale * ratio
  return ratios


def _sums(terms: terms_lib.Terms) -> dict[str, jax.Array]:
  return {**terms_lib.sums(terms), "loss": terms_lib.loss(terms)}


def split(batch: Mapping[str, jax.Array], number: int) -> dict[str, jax.Array]:
  """Deals the rows of [B, ...] out to parts [number, B / number, ...].

  Part i has the rows i, i + number, ...: every device keeps its own rows, and
  has as many of them in each part.
  """

  def of(x):
    parts = x.reshape(-1, number, *x.shape[1:])
    rest = [None] * (x.ndim - 1)
    return axes.constrain(jnp.moveaxis(parts, 1, 0), None, "batch", *rest)

  return {name: of(x) for name, x in batch.items()}


def check_microbatches(
  num_microbatches: int, batch_size: int, shares: int
) -> None:
  """Checks that microbatches divide a batch.

  Args:
    num_microbatches: The number of parts.
    batch_size: rows of the global batch.
    shares: over how many devices these lie.

  Raises:
    UserError: they do not, with the numbers that do.
  """
  rows = batch_size // shares
  if num_microbatches < 1 or rows % num_microbatches:
    divisors = [str(d) for d in range(1, rows + 1) if rows % d == 0]
    raise UserError(
      f"NUM_MICROBATCHES={num_microbatches} does not divide BATCH_SIZE="
      f"{batch_size} on {shares} device{'s' * (shares > 1)}, {rows} "
      f"row{'s' * (rows > 1)} each; choose one of {', '.join(divisors)}"
    )
