"""Programs of a run before they are compiled, with their arguments and cost.

The program is a training step or a decoding. Its batch follows from lengths,
batch size and converter: no data is needed.
"""

from collections.abc import Mapping
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from transformer_zoo.data.features import converters
from transformer_zoo.decoding.generate import generate
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import compilation
from transformer_zoo.forecast import cost as cost_lib
from transformer_zoo.runs.settings import Run
from transformer_zoo.training.monitoring import anomalies
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import meshes

MODES = ("train", "decode")


@dataclasses.dataclass(frozen=True)
class Program:
  """A jitted function and shapes of its arguments, with shardings.

  Attributes:
    jitted: the function.
    arguments: shapes.
    cost: The cost on all devices together.
    model_flops: The FLOPs that utilisation counts.
    state_bytes: parameters and optimizer state on a device (decoding:
      parameters).
    batch: `rows` and `tokens`, padding included (decoding: at most so many
      made).
    unknown_trips: The number of turns of its loops whose end depends on data.
  """

  jitted: Any
  arguments: tuple
  cost: cost_lib.Cost
  model_flops: int
  state_bytes: int
  batch: dict[str, int]
  unknown_trips: int = 1


def of_mode(mode: str, program: TrainProgram, run: Run) -> Program:
  """The training step, or the decoding of a batch.

  Raises:
    UserError: there is no such mode.
  """
  check_mode(mode)
  make = {"train": _training, "decode": _decoding}[mode]
  return make(program, run)


def check_mode(mode: str) -> None:
  """Raises UserError for a mode that does not exist."""
  if mode not in MODES:
    raise UserError(f"unknown mode {mode!r}; allowed: {', '.join(MODES)}")


def _training(program: TrainProgram, run: Run) -> Program:
  batch = run.abstract_batch(program.mesh)
  key = jax.eval_shape(lambda: jax.random.key(0))
  others = [key]
  if program.anomalies.are_looked_for:
    others.append(anomalies.initial_history())
  return Program(
    jitted=program.step,
    arguments=(
      program.abstract_state,
      batch,
      *_replicated(others, program.mesh),
    ),
    cost=program.cost(batch),
    model_flops=program.model_flops(batch),
    state_bytes=compilation.tree_bytes(program.abstract_state),
    batch=_batch_size(batch),
  )


def _decoding(program: TrainProgram, run: Run) -> Program:
  if not run.examples.converter.writes:
    raise UserError(
      f"{type(run.step.model).__name__} writes no text, so that there is no "
      "decoding to plan; choose --mode train"
    )
  examples, rows = run.examples, run.step.batch_size
  lengths = converters.with_room(
    examples.converter, examples.task_feature_lengths
  )
  options = run.evaluation.decoding.with_length(lengths["targets"])
  params = program.abstract_state.params
  make = functools.partial(
    generate,
    run.step.model.offers.student or run.step.model,
    max_length=lengths["targets"],
    options=options,
  )

  def decode(params, inputs_BM, lengths_B, example_ids_B):
    return make(
      params, inputs_BM, lengths_B=lengths_B, example_ids_B=example_ids_B
    )

  laid_out = meshes.over_rows(program.mesh)
  per_row = jax.ShapeDtypeStruct((rows,), jnp.int32, sharding=laid_out)
  inputs_BM = jax.ShapeDtypeStruct(
    (rows, lengths["inputs"]), jnp.int32, sharding=laid_out
  )
  arguments = params, inputs_BM, per_row, per_row
  cost = cost_lib.count(decode, *arguments, while_trips=options.max_length)
  return Program(
    jitted=jax.jit(decode),
    arguments=arguments,
    cost=cost,
    model_flops=cost.matmul_flops,
    state_bytes=compilation.tree_bytes(params),
    batch={"rows": rows, "tokens": rows * options.max_length},
    unknown_trips=options.max_length,
  )


def _batch_size(batch: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, int]:
  """Rows, and the tokens that encoder and decoder read."""
  tokens = [x for name, x in batch.items() if name.endswith("_input_tokens")]
  return {
    "rows": tokens[0].shape[0],
    "tokens": sum(array.size for array in tokens),
  }


def _replicated(tree, mesh: jax.sharding.Mesh):
  """Shapes of arrays that every device has."""
  everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=everywhere), tree
  )
