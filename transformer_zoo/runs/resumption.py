"""The optimizer's state of a checkpoint in the place of a run's.

Steps are counted on, so that schedules, data and draws go on where they stood.
"""

import jax
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors.lazy_tensors import Tensor
from transformer_zoo.runs.checkpoint_sources import Source
from transformer_zoo.training.optimizers.adafactor import AdafactorState
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import placement
from transformer_zoo.training.state import TrainState


def check(source: Source, program: TrainProgram, train_steps: int) -> int:
  """Compares a checkpoint's state of the optimizer with a run's.

  Args:
    source: the checkpoint.
    program: of the run.
    train_steps: where the run ends.

  Returns:
    The steps that the checkpoint has made.

  Raises:
    UserError: it has none, or another one, or has made all the steps, or the
      run divides its own among its layers.
  """
  abstract = program.abstract_state
  if program.trainable.unfreezing is not None:
    raise UserError(
      "InitialCheckpoint.resume counts the steps of the checkpoint, and "
      "gradual unfreezing divides those from 0 on among the layers; leave one "
      "of the two out"
    )
  moments = source.find_moments()
  if moments is None:
    raise UserError(
      f"{source.name} has no state of Adafactor to resume; leave "
      "InitialCheckpoint.resume out"
    )
  if not isinstance(abstract.opt_state, AdafactorState):
    raise UserError(
      "InitialCheckpoint.resume goes on with Adafactor's state in float32, and "
      "this run has another optimizer or state_dtype; leave it out"
    )
  if source.steps >= train_steps:
    raise UserError(
      f"{source.name} has made {source.steps} steps already; TRAIN_STEPS="
      f"{train_steps} counts them too and must be larger"
    )
  wanted = placement.shapes(abstract.opt_state.moments)
  there = {name: tensor.shape for name, tensor in moments.items()}
  for name in sorted(wanted.keys() | there.keys()):
    if wanted.get(name) != there.get(name):
      raise UserError(
        f"Adafactor's state of {source.name} is factored otherwise: {name} is "
        f"{there.get(name, 'not there')} instead of "
        f"{wanted.get(name, 'nothing')}; adafactor.min_dim_size_to_factor "
        "says which matrices are factored here, and T5X factors all of scanned "
        "layers"
      )
  return source.steps


def resume(
  source: Source,
  abstract: TrainState,
  state: TrainState,
  loss_scale: float = 1.0,
) -> TrainState:
  """Returns a run's state with the steps and moments of a checkpoint.

  Args:
    source: the checkpoint, for which `check` has passed.
    abstract: shapes, dtypes and shardings of the state.
    state: whose moments are used up.
    loss_scale: see `InitialCheckpoint`; moments are of squared gradients.
  """
  moments = {
    name: _divided(tensor, loss_scale**2)
    for name, tensor in source.find_moments().items()
  }
  steps = np.asarray(source.steps, np.int32)
  return state.replace(
    step=jax.device_put(steps, abstract.step.sharding),
    opt_state=AdafactorState(
      count=jax.device_put(steps, abstract.opt_state.count.sharding),
      moments=placement.place(
        moments,
        abstract.opt_state.moments,
        state.opt_state.moments,
      ),
    ),
  )


def _divided(tensor: Tensor, divisor: float) -> Tensor:
  return Tensor(
    tensor.shape,
    tensor.dtype,
    lambda: tensor.read() / tensor.dtype.type(divisor),
  )
