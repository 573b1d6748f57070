"""A run's program compiled for devices that need not be there, and its costs.

The program is that of `train` (or of decoding) by the same bindings; what it
reads comes from lengths, batch size and converter, so that no data is needed.
"""

from collections.abc import Mapping
import dataclasses
import functools
import inspect
from typing import Any

import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data import prompts
from transformer_zoo.decoding.generate import generate
from transformer_zoo.errors import UserError
from transformer_zoo.experiment.train import train
from transformer_zoo.training import anomalies
from transformer_zoo.training import collectives
from transformer_zoo.training import compilation
from transformer_zoo.training import cost as cost_lib
from transformer_zoo.training import roofline
from transformer_zoo.training import sharding_table
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.topologies import Topology

MODES = ("train", "decode")
_BATCH_AXES = ("data", "fsdp")


@dataclasses.dataclass(frozen=True)
class Forecast:
  """What is known of a program before it runs.

  Attributes:
    topology: what it is for.
    mesh: sizes of the mesh's axes.
    mode: one of `MODES`.
    fits: whether it fits into the memory of each device; None where the size
      of that is not known.
    state_bytes: parameters and optimizer state on a device (decoding:
      parameters).
    batch: rows and tokens, padding included (decoding: at most so many made).
    compiled: memory and times.
    available: bytes of a device for programs, or None.
    missing: bytes that a device lacks, 0 if it fits, None if it is not told.
    cost: on all devices together.
    model_flops: those that utilisation counts.
    collectives: of one device, in one step.
    roofline: None for devices whose speed is not known.
    shardings: one row per parameter.
  """

  topology: Topology
  mesh: Mapping[str, int]
  mode: str
  fits: bool | None
  state_bytes: int
  batch: Mapping[str, int]
  compiled: compilation.Compiled
  available: int | None
  missing: int | None
  cost: cost_lib.Cost
  model_flops: int
  collectives: list[collectives.Total]
  roofline: roofline.Roofline | None
  shardings: list[sharding_table.Row]


def forecast(
  topology: Topology, mode: str = "train", tokens: float | None = None
) -> Forecast:
  """Compiles what gin binds to `train`.

  Call it inside `target.compiling_for`, with a configuration loaded.

  Args:
    topology: the devices.
    mode: one of `MODES`.
    tokens: of a whole training.

  Raises:
    UserError: the run does not divide over the devices, or the compiler
      refuses it for another reason than memory.
  """
  settings = _settings()
  partitioning = settings["partitioning"]
  mesh = partitioning.mesh(topology.devices)
  program = _program(settings, mesh)
  program.check(settings["batch_size"])
  with partitioning.activate(mesh):
    made = {"train": _training, "decode": _decoding}[mode](program, settings)
    compiled = compilation.compile_ahead(made.jitted, made.arguments)
    shardings = sharding_table.rows(program)
  sent = collectives.totals(
    collectives.read(
      compiled.text, mesh.shape, unknown_trips=made.unknown_trips
    )
  )
  fits, available, missing = _verdict(compiled, topology)
  bounds = None
  if topology.chip is not None:
    bounds = roofline.estimate(
      made.cost,
      made.model_flops,
      sent,
      chip=topology.chip,
      devices=mesh.size,
      step_tokens=made.batch["tokens"],
      tokens=tokens,
    )
  return Forecast(
    topology=topology,
    mesh=dict(mesh.shape),
    mode=mode,
    fits=fits,
    state_bytes=made.state_bytes,
    batch=made.batch,
    compiled=compiled,
    available=available,
    missing=missing,
    cost=made.cost,
    model_flops=made.model_flops,
    collectives=sent,
    roofline=bounds,
    shardings=shardings,
  )


@dataclasses.dataclass(frozen=True)
class _Made:
  """A program that is not compiled yet."""

  jitted: Any
  arguments: tuple
  cost: cost_lib.Cost
  model_flops: int
  state_bytes: int
  batch: dict[str, int]
  unknown_trips: int = 1


def _settings() -> dict[str, Any]:
  """The arguments of `train`: what gin binds, and defaults."""
  defaults = {
    name: parameter.default
    for name, parameter in inspect.signature(train).parameters.items()
  }
  return defaults | gin.get_bindings("train")


def _program(settings: Mapping[str, Any], mesh) -> TrainProgram:
  rate = settings["learning_rate"]
  return TrainProgram(
    settings["model"],
    settings["objective"],
    settings["optimizer"](rate),
    rate,
    settings["partitioning"],
    mesh,
    num_microbatches=settings["num_microbatches"],
    **settings["watching"].in_step(),
  )


def _training(program: TrainProgram, settings: Mapping[str, Any]) -> _Made:
  batch = abstract_batch(settings, program.mesh)
  key = jax.eval_shape(lambda: jax.random.key(0))
  others = [key]
  if program.anomalies.are_looked_for:
    others.append(anomalies.initial_history())
  return _Made(
    jitted=program.step,
    arguments=(
      program.abstract_state,
      batch,
      *_replicated(others, program.mesh),
    ),
    cost=program.cost(batch),
    model_flops=program.model_flops(batch),
    state_bytes=sharding_table.device_bytes(program.abstract_state),
    batch=_batch_size(batch),
  )


def _decoding(program: TrainProgram, settings: Mapping[str, Any]) -> _Made:
  converter, rows = settings["converter"], settings["batch_size"]
  lengths = prompts.with_room(converter, settings["task_feature_lengths"])
  options = settings["decoding"].with_length(lengths["targets"])
  params = program.abstract_state.params
  make = functools.partial(
    generate,
    settings["model"],
    max_length=lengths["targets"],
    options=options,
  )

  def decode(params, inputs_BM, lengths_B, example_ids_B):
    return make(
      params, inputs_BM, lengths_B=lengths_B, example_ids_B=example_ids_B
    )

  laid_out = _over_rows(program.mesh)
  per_row = jax.ShapeDtypeStruct((rows,), jnp.int32, sharding=laid_out)
  inputs = jax.ShapeDtypeStruct(
    (rows, lengths["inputs"]), jnp.int32, sharding=laid_out
  )
  arguments = params, inputs, per_row, per_row
  cost = cost_lib.count(decode, *arguments, while_trips=options.max_length)
  return _Made(
    jitted=jax.jit(decode),
    arguments=arguments,
    cost=cost,
    model_flops=cost.matmul_flops,
    state_bytes=sharding_table.device_bytes(params),
    batch={"rows": rows, "tokens": rows * options.max_length},
    unknown_trips=options.max_length,
  )


def abstract_batch(
  settings: Mapping[str, Any], mesh: jax.sharding.Mesh
) -> dict[str, jax.ShapeDtypeStruct]:
  """Shapes and shardings of a training batch, from no examples at all.

  Args:
    settings: arguments of `train`.
    mesh: where it will lie.
  """
  converter = settings["converter"]
  row = converter(
    {name: Ragged.of([]) for name in converter.features},
    np.zeros(0, int),
    num_rows=1,
    lengths=settings["task_feature_lengths"],
    packing=settings["packing"],
    pad_id=0,
  )
  return {
    name: jax.ShapeDtypeStruct(
      (settings["batch_size"], *value.shape[1:]),
      jnp.int32,
      sharding=_over_rows(mesh),
    )
    for name, value in row.items()
  }


def _over_rows(mesh: jax.sharding.Mesh) -> jax.sharding.NamedSharding:
  spec = jax.sharding.PartitionSpec(_BATCH_AXES)
  return jax.sharding.NamedSharding(mesh, spec)


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


def _verdict(
  compiled: compilation.Compiled, topology: Topology
) -> tuple[bool | None, int | None, int | None]:
  """Whether it fits, what a device has, and what is missing."""
  available = compiled.available
  if available is None and topology.chip is not None:
    available = topology.chip.available_bytes
  needed = compiled.needed
  if compiled.memory is None:
    known = needed is not None and available is not None
    return False, available, needed - available if known else None
  if topology.platform == "tpu":  # libtpu has refused what does not fit.
    return True, available, 0
  if available is None:
    return None, None, None
  missing = max(0, compiled.memory.total - available)
  return missing == 0, available, missing


def check_mode(mode: str) -> None:
  """Raises UserError for a mode that does not exist."""
  if mode not in MODES:
    raise UserError(f"unknown mode {mode!r}; allowed: {', '.join(MODES)}")
