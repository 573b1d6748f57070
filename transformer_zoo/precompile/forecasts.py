"""A run's program compiled for devices that need not be there; its costs."""

from collections.abc import Mapping
import dataclasses

from transformer_zoo.forecast import collectives
from transformer_zoo.forecast import compilation
from transformer_zoo.forecast import cost as cost_lib
from transformer_zoo.forecast import roofline
from transformer_zoo.forecast.topologies import Topology
from transformer_zoo.precompile import programs
from transformer_zoo.runs.settings import Run
from transformer_zoo.training import layout_report


@dataclasses.dataclass(frozen=True)
class Forecast:
  """The forecast of a program before it runs.

  Attributes:
    topology: The devices that the program is compiled for.
    mesh: sizes of the mesh's axes.
    mode: one of `programs.MODES`.
    fits: whether it fits into the memory of each device; None where the size
      of that is not known.
    state_bytes: parameters and optimizer state on a device (decoding:
      parameters).
    batch: rows and tokens, padding included (decoding: at most so many made).
    compiled: memory and times.
    available: bytes of a device for programs, or None.
    missing: bytes that a device lacks, 0 if it fits, None if unknown.
    cost: The cost on all devices together.
    model_flops: The FLOPs that utilisation counts.
    collectives: The collectives of one device, in one step.
    roofline: None for devices whose speed is not known, and where nothing was
      compiled.
    shardings: one row per parameter.
    unknown_trips: The number of turns of its loops whose end depends on data.
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
  shardings: list[layout_report.Row]
  unknown_trips: int = 1


def forecast(
  topology: Topology, mode: str = "train", tokens: float | None = None
) -> Forecast:
  """Compiles what gin binds to `train`.

  Call it inside `tracing.compiling_for`, with a configuration loaded.

  Args:
    topology: the devices.
    mode: one of `programs.MODES`.
    tokens: The number of tokens of a whole training; None if its days are not
      asked for.

  Raises:
    UserError: the run does not divide over the devices, or the compiler
      refuses it for another reason than memory.
  """
  run = Run.of_loaded()
  program = run.step.program(topology.devices)
  mesh = program.mesh
  with program.partitioning.activate(mesh):
    made = programs.of_mode(mode, program, run)
    compiled = compilation.compile_ahead(made.jitted, made.arguments)
    shardings = layout_report.rows(program)
  sent = collectives.totals(
    collectives.read(
      compiled.text, mesh.shape, unknown_trips=made.unknown_trips
    )
  )
  fits, available, missing = verdict(compiled, topology)
  bounds = None
  if topology.chip is not None and compiled.memory is not None:
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
    unknown_trips=made.unknown_trips,
  )


def verdict(
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
