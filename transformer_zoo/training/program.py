"""A training step on a mesh: one definition for runs, forecasts and benchmarks.

Nothing is computed before `initial_state` or `step` is called, so the same
program can be compiled for an absent machine.
"""

import dataclasses
import functools
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import optax

from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import compilation
from transformer_zoo.forecast import cost as cost_lib
from transformer_zoo.forecast.cost import Cost
from transformer_zoo.objectives import terms as terms_lib
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.initial_arrays import InitialArrays
from transformer_zoo.training.monitoring import anomalies as anomalies_lib
from transformer_zoo.training.monitoring.anomalies import Anomalies
from transformer_zoo.training.monitoring.monitor import TOKENS
from transformer_zoo.training.monitoring.norms import Norms
from transformer_zoo.training.optimizers.schedules import Schedule
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning
from transformer_zoo.training.state import TrainState


@dataclasses.dataclass(frozen=True, eq=False)
class TrainProgram:
  """One training step: its parts, and their layout on a mesh.

  Use it inside `partitioning.activate(mesh)`.

  Attributes:
    model: an architecture.
    objective: The loss of a batch.
    optimizer: makes updates of gradients.
    learning_rate: the schedule that `optimizer` follows, to be reported.
    partitioning: rules of the layout.
    mesh: the devices.
    anomalies: The treatment of NaN, infinities and spikes within the step.
    norms: The groups of parameters whose norms are reported.
    num_microbatches: The number of parts into which a step divides its batch;
      they are computed one after another.
    trainable: The choice of the parameters that have gradients and optimizer
      state.
  """

  model: nn.Module
  objective: Objective
  optimizer: optax.GradientTransformation
  learning_rate: Schedule
  partitioning: Partitioning
  mesh: jax.sharding.Mesh
  anomalies: Anomalies = Anomalies()
  norms: Norms | None = None
  num_microbatches: int = 1
  trainable: Trainable = trainable_lib.ALL

  @functools.cached_property
  def boxed_params(self):
    """Shapes of the parameters with their logical axes."""
    return state_lib.abstract_variables(self.model)

  @functools.cached_property
  def abstract_state(self) -> TrainState:
    """Shapes, dtypes and shardings of the state."""
    _, shapes = self._traced_state
    shardings = self.partitioning.shardings(
      self.mesh, self.boxed_params, shapes
    )
    return partitioning_lib.abstract(shapes, shardings)

  @functools.cached_property
  def state_shardings(self) -> TrainState:
    """The shardings of all arrays of the state."""
    return _shardings(self.abstract_state)

  @property
  def trained_params(self):
    """Shapes, dtypes and shardings of the parameters that are trained."""
    return self.trainable.select(self.abstract_state.params)

  @property
  def parameter_counts(self) -> dict[str, int]:
    """`parameters`, all of them, and `trained_parameters`."""
    _, params = self._in_float32
    return {
      "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
      "trained_parameters": self.trainable.count(params),
    }

  @functools.cached_property
  def _in_float32(self) -> tuple[nn.Module, Any]:
    """The model and the shapes of its parameters, were none of fewer bits."""
    params = self.abstract_state.params
    if all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params)):
      return self.model, params
    from transformer_zoo.peft.rounded import unrounded

    model = unrounded(self.model)
    return model, state_lib.abstract_params(model)

  def initial_state(self, key: jax.Array) -> TrainState:
    """The state at step 0, made where it lies."""
    return jax.tree.unflatten(
      jax.tree.structure(self.abstract_state), self._initial_arrays(key)
    )

  @functools.cached_property
  def _initial_arrays(self) -> InitialArrays:
    traced, _ = self._traced_state
    return InitialArrays(traced, jax.tree.leaves(self.state_shardings))

  @functools.cached_property
  def _traced_state(self):
    """The function of a key that makes the state, traced, and its shapes."""
    # The key is abstract: the devices of the mesh may be absent.
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.make_jaxpr(self._make_state, return_shape=True)(key)

  @functools.cached_property
  def compiled_steps(self) -> dict[tuple, jax.stages.Compiled]:
    """Steps that runs of this program have compiled, by shapes of batches."""
    return {}

  @functools.cached_property
  def step(self):
    """(state, batch, dropout key) -> (state, sums), compiled once per shape.

    The state before is donated. `sums` are the sums of `train_step` and
    `learning_rate`. Where `anomalies.are_looked_for` it takes a history, the
    one that `place_history` gives or the one among the `sums` before.
    """
    return jax.jit(
      self._step,
      donate_argnums=0,
      out_shardings=(self.state_shardings, self._replicated),
    )

  def place_history(self, history):
    """Lays the history of `anomalies` out as the step returns it."""
    return jax.device_put(dict(history), self._replicated)

  @property
  def _replicated(self) -> NamedSharding:
    return NamedSharding(self.mesh, PartitionSpec())

  def check(self, batch_size: int) -> None:
    """Checks that batch and parameters divide over the mesh; what is trained.

    Raises:
      UserError: they do not, with the sizes that do; nothing is, or there are
        no such parameters; the objective does not go with microbatches.
    """
    self.partitioning.check(self.mesh, self.boxed_params, batch_size)
    shares = partitioning_lib.batch_shares(self.mesh)
    step_lib.check_microbatches(self.num_microbatches, batch_size, shares)
    if self.objective.takes_updates and self.num_microbatches > 1:
      raise UserError(
        f"NUM_MICROBATCHES={self.num_microbatches}, but the discriminator "
        "reads the generator after its update by the whole batch; set it to 1, "
        "or bind ReplacedTokens.generator_first = False"
      )
    self.trainable.check(self.abstract_state.params)
    if (
      self.model.offers.student is not None and "teacher" in self.trained_params
    ):
      raise UserError(
        "Trainable.parameters trains the teacher; leave it out, as "
        "('(?!teacher/).*',) does"
      )

  def check_memory(self, batch: Any = None) -> None:
    """Checks that the state, and a step on a batch, fit the devices.

    Args:
      batch: The shapes and shardings of a batch; None checks the state alone.

    Raises:
      UserError: A lower bound of what they need exceeds a device's memory.
    """
    device = self.mesh.local_devices[0]
    if batch is None:
      compilation.check_state(self.abstract_state, device)
    elif compilation.may_exceed(self.abstract_state, batch, device):
      key = jax.eval_shape(lambda: jax.random.key(0))
      history = anomalies_lib.initial_history()
      step = cost_lib.trace(
        self._update, self.abstract_state, batch, key, history
      )
      compilation.check_step(self.abstract_state, batch, step, device)

  def cost(self, batch) -> Cost:
    """The cost of a step on such a batch, on all devices together."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    history = anomalies_lib.initial_history()
    return cost_lib.count(
      self._update, self.abstract_state, batch, key, history
    )

  @functools.cached_property
  def known_flops(self) -> dict[tuple, int]:
    """The `model_flops` that have been counted, by shapes of batches."""
    return {}

  def model_flops(self, batch) -> int:
    """FLOPs that a step on such a batch needs, for its utilisation.

    Three times the products of the forward pass, whatever the step computes
    again (Chowdhery et al. 2022, appendix B), without those products of the
    backward pass that give gradients of parameters that are not trained.
    """
    model, params = self._in_float32

    def objective(params, batch):
      terms = self.objective(model, params, batch)
      return terms_lib.loss(terms), terms

    forward = cost_lib.count(objective, params, batch)
    if self.trainable == trainable_lib.ALL:
      return 3 * forward.matmul_flops

    def backward(trained, params, batch):
      def loss_of(trained):
        return objective(self.trainable.replace(params, trained), batch)

      return jax.grad(loss_of, has_aux=True)(trained)

    of_trained, of_all = (
      cost_lib.count(backward, some, params, batch).matmul_flops
      for some in (self.trainable.select(params), params)
    )
    return 3 * forward.matmul_flops - (of_all - of_trained)

  def _like_params(self, gradients):
    """Gradients where their parameters lie."""
    return jax.lax.with_sharding_constraint(
      gradients, _shardings(self.trained_params)
    )

  def _count_tokens(self, batch) -> jax.Array:
    """The tokens of both sides of a batch but padding."""
    return sum(
      jnp.sum(batch[name] != self.model.pad_id, dtype=jnp.float32)
      for name in TOKENS
      if name in batch
    )

  def _make_state(self, key: jax.Array) -> TrainState:
    return state_lib.initial_state(
      self.model, self.optimizer, key, self.trainable
    )

  def _step(self, state, batch, key, history=None):
    with tracing.recorded_choices() as made:
      result = self._update(state, batch, key, history)
    # While it is traced: once for each shape of batches.
    for choice in made:
      print(choice, flush=True)
    return result

  def _update(self, state, batch, key, history):
    new_state, sums = step_lib.train_step(
      state,
      batch,
      key,
      objective=functools.partial(self.objective, self.model),
      optimizer=self.optimizer,
      norms=self.norms,
      trainable=self.trainable,
      takes_updates=self.objective.takes_updates,
      takes_parts=self.objective.takes_parts,
      num_microbatches=self.num_microbatches,
      lay_out=self._like_params,
    )
    sums = {
      **sums,
      "token_sum": self._count_tokens(batch),
      "learning_rate": self.learning_rate(_updates_before(state)),
    }
    if self.anomalies.are_looked_for:
      return self.anomalies.judge(state, new_state, sums, history)
    return new_state, sums


def _updates_before(state: TrainState) -> jax.Array:
  """The updates that the optimizer has counted: a skipped step is none."""
  counts = optax.tree.get_all_with_path(state.opt_state, "count")
  return counts[0][1] if counts else state.step


def _shardings(abstract_tree):
  """The shardings of all arrays of a tree of shapes."""
  return jax.tree.map(lambda leaf: leaf.sharding, abstract_tree)
