"""Collectives of a compiled program, read from the compiler's text (HLO).

The text is of one device's program. What stands in a loop counts as often as
the loop runs; an asynchronous pair counts once, at its start. Sizes are those
of the whole arrays that a device ends up with or gives away, and what a ring
moves over its links follows from them (`Collective.moved_bytes`; as in Thakur
et al. 2005, Optimization of collective communication operations in MPICH).
"""

from collections.abc import Iterator, Sequence
import dataclasses

from transformer_zoo.forecast import hlo
from transformer_zoo.forecast import replica_groups

KINDS = (
  "all-reduce",
  "all-gather",
  "reduce-scatter",
  "all-to-all",
  "ragged-all-to-all",
  "collective-permute",
  "collective-broadcast",
  "send",
)


@dataclasses.dataclass(frozen=True)
class Collective:
  """One collective instruction.

  Attributes:
    kind: one of `KINDS`.
    axes: mesh axes along which devices talk; empty where the groups are no
      axes of the mesh, and for a `send`, which goes to another slice.
    group: devices in a group.
    bytes: The size of the array: the result of an all-gather, the operand of a
      reduce-scatter, and either of the others.
    times: The number of times that a step runs it.
  """

  kind: str
  axes: tuple[str, ...]
  group: int
  bytes: int
  times: int

  @property
  def moved_bytes(self) -> int:
    """Bytes that a device sends in a step, by rings."""
    others = self.group - 1
    share = {
      "all-reduce": 2 * others / self.group,
      "all-gather": others / self.group,
      "reduce-scatter": others / self.group,
      "all-to-all": others / self.group,
      "ragged-all-to-all": others / self.group,
    }.get(self.kind, 1)
    return int(self.times * self.bytes * share)


@dataclasses.dataclass(frozen=True)
class Total:
  """Collectives of one kind along the same mesh axes, in one step.

  Attributes:
    kind: one of `KINDS`.
    axes: The mesh axes; see `Collective`.
    count: The number of collectives that are run.
    bytes: The number of bytes of their arrays.
    moved_bytes: The number of bytes that a device sends.
  """

  kind: str
  axes: tuple[str, ...]
  count: int
  bytes: int
  moved_bytes: int


def read(
  text: str, mesh_shape: dict[str, int], *, unknown_trips: int = 1
) -> list[Collective]:
  """The collectives of a compiled module.

  Args:
    text: `compiled.as_text()`; empty where nothing was compiled.
    mesh_shape: the mesh's axes and sizes, whose devices are numbered in order.
    unknown_trips: The assumed number of turns of a loop whose end depends on
      data.
  """
  if not text:
    return []
  module = hlo.parse(text)
  found = _walk(module, module.entry, 1, unknown_trips)
  return [_collective(module, each, mesh_shape) for each in _once_each(found)]


def totals(collectives: Sequence[Collective]) -> list[Total]:
  """One row per kind and mesh axes; what moves most comes first."""
  rows: dict[tuple, list[Collective]] = {}
  for each in collectives:
    rows.setdefault((each.kind, each.axes), []).append(each)
  summed = [
    Total(
      kind,
      axes,
      sum(each.times for each in group),
      sum(each.times * each.bytes for each in group),
      sum(each.moved_bytes for each in group),
    )
    for (kind, axes), group in rows.items()
  ]
  return sorted(summed, key=lambda row: -row.moved_bytes)


@dataclasses.dataclass(frozen=True)
class _Found:
  """A collective instruction, how often it runs, and whether in a fusion."""

  kind: str
  instruction: hlo.Instruction
  times: int
  in_fusion: bool


def _walk(
  module: hlo.Module,
  name: str,
  times: int,
  unknown_trips: int,
  in_fusion: bool = False,
) -> Iterator[_Found]:
  """Collective instructions of a computation and of those that it calls."""
  for instruction in module.computations[name]:
    kind = _kind(instruction, name)
    if kind in KINDS:
      yield _Found(kind, instruction, times, in_fusion)
      continue
    inner = times
    if instruction.opcode == "while":
      trips = hlo.trip_count(module, instruction)
      inner *= unknown_trips if trips is None else trips
    fused = in_fusion or instruction.opcode == "fusion"
    for called in instruction.called:
      yield from _walk(module, called, inner, unknown_trips, fused)


def _once_each(found: Iterator[_Found]) -> Iterator[_Found]:
  """Without what libtpu repeats.

  It hides a collective behind several fusions, in loops too, each of which
  has it inside, under one channel. The one that runs least often starts it.
  """
  spread: dict[int, _Found] = {}
  for each in found:
    channel = hlo.channel(each.instruction)
    if not each.in_fusion or channel is None:
      yield each
    elif channel not in spread or each.times < spread[channel].times:
      spread[channel] = each
  yield from spread.values()


def _kind(instruction: hlo.Instruction, computation: str) -> str:
  """The opcode without `-start`.

  libtpu writes a reduce-scatter as a computation of this name, in which an
  all-reduce is cut.
  """
  if "all-reduce-scatter" in computation and instruction.opcode == "all-reduce":
    return "reduce-scatter"
  return instruction.opcode.removesuffix("-start")


def _collective(
  module: hlo.Module, found: _Found, mesh_shape: dict[str, int]
) -> Collective:
  kind = found.kind
  axes, group = replica_groups.of(found.instruction.attributes, mesh_shape)
  if kind == "send":
    axes, group = (), 2
  operands = module.operand_bytes(found.instruction)
  # A start's own type repeats its operands: those are enough.
  size = operands * group if kind == "all-gather" else operands
  return Collective(kind, axes, group, size, found.times)
