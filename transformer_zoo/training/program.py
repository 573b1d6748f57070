"""A training step on a mesh: one definition for runs, forecasts and benchmarks.

Nothing is computed before `initial_state` or `step` is called, so the same
program can be compiled for a machine that is not there.
"""

from collections.abc import Callable
import dataclasses
import functools

from flax import linen as nn
import jax
import optax

from transformer_zoo.modules import choices
from transformer_zoo.training import partitioning as partitioning_lib
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.partitioning import Partitioning
from transformer_zoo.training.schedules import Schedule
from transformer_zoo.training.state import TrainState
from transformer_zoo.training.step import train_step


@dataclasses.dataclass(frozen=True, eq=False)
class TrainProgram:
  """What one training step reads, computes and writes, and where it lies.

  Use it inside `partitioning.activate(mesh)`.

  Attributes:
    model: an architecture.
    objective: the loss; (model, params, batch, dropout key) -> (loss, sums).
    optimizer: makes updates of gradients.
    learning_rate: the schedule that `optimizer` follows, to be reported.
    partitioning: rules of the layout.
    mesh: the devices.
  """

  model: nn.Module
  objective: Callable
  optimizer: optax.GradientTransformation
  learning_rate: Schedule
  partitioning: Partitioning
  mesh: jax.sharding.Mesh

  @functools.cached_property
  def boxed_params(self):
    """Shapes of the parameters with their logical axes."""
    return state_lib.abstract_variables(self.model)

  @functools.cached_property
  def abstract_state(self) -> TrainState:
    """Shapes, dtypes and shardings of the state."""
    # The key is traced too: the mesh may be of devices that are not there.
    shapes = jax.eval_shape(lambda: self._make_state(jax.random.key(0)))
    shardings = self.partitioning.shardings(
      self.mesh, self.boxed_params, shapes
    )
    return partitioning_lib.abstract(shapes, shardings)

  @functools.cached_property
  def state_shardings(self) -> TrainState:
    """Where each array of the state lies."""
    return jax.tree.map(lambda leaf: leaf.sharding, self.abstract_state)

  def initial_state(self, key: jax.Array) -> TrainState:
    """The state at step 0, made where it lies."""
    make = jax.jit(self._make_state, out_shardings=self.state_shardings)
    return make(key)

  @functools.cached_property
  def step(self):
    """(state, batch, dropout key) -> (state, sums), compiled once per shape.

    The state before is donated. `sums` are those of `train_step` and
    `learning_rate`.
    """
    return jax.jit(
      self._step, donate_argnums=0, out_shardings=(self.state_shardings, None)
    )

  def _make_state(self, key: jax.Array) -> TrainState:
    return state_lib.initial_state(self.model, self.optimizer, key)

  def _step(self, state, batch, key):
    with choices.recorded() as made:
      new_state, sums = train_step(
        state,
        batch,
        key,
        objective=functools.partial(self.objective, self.model),
        optimizer=self.optimizer,
      )
    # While it is traced: once for each shape of batches.
    for choice in made:
      print(choice, flush=True)
    return new_state, {**sums, "learning_rate": self.learning_rate(state.step)}
