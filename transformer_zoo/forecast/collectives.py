"""Collectives of a compiled program, read from the compiler's text (HLO).

The text is of one device's program. What stands in a loop counts as often as
the loop runs; an asynchronous pair counts once, at its start. Sizes are those
of the whole arrays that a device ends up with or gives away, and what a ring
moves over its links follows from them (`Collective.moved_bytes`; as in Thakur
et al. 2005, Optimization of collective communication operations in MPICH).
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import math
import re

import numpy as np

# The text of a module (`HloModule::ToString`, openxla/xla, hlo/parser) as
# computations of instructions, as far as counting needs it.
_BITS = {"pred": 8, "token": 0, "opaque": 0}  # of types without digits
_ARRAY = re.compile(r"\b(pred|token|opaque|[a-z]+\d+\w*)\[([\d,<=]*)\]")
_INSTRUCTION = re.compile(r"^\s*(ROOT )?%?([\w.\-]+) = (.*)$")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_CALLED = re.compile(
  r"(?:calls|to_apply|body|condition|true_computation|false_computation)="
  r"%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_NAME = re.compile(r"%([\w.\-]+)")
_KNOWN_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
# What a reduction applies to elements is no part of the program's flow; what an
# asynchronous start runs is not run again by its end.
_CALLS_NOT_FOLLOWED = (
  *("all-reduce", "reduce", "sort", "scatter", "select-and-scatter"),
  *("async-update", "async-done"),
)
_PASSED_ON = (
  "copy",
  "bitcast",
  "convert",
  "reshape",
  "copy-done",
  "copy-start",
)


@dataclasses.dataclass(frozen=True)
class Instruction:
  """One line.

  Attributes:
    name: The name without `%`.
    type: The type as text, a tuple in parentheses.
    opcode: `all-reduce-start`, ...
    operands: names, in order.
    inside: the text between the parentheses (of a constant its value).
    attributes: The text that follows them.
    is_root: whether it is the computation's result.
  """

  name: str
  type: str
  opcode: str
  operands: tuple[str, ...]
  inside: str
  attributes: str
  is_root: bool

  @property
  def called(self) -> tuple[str, ...]:
    """Computations that it runs."""
    if self.opcode.startswith(_CALLS_NOT_FOLLOWED):
      return ()
    found = _CALLED.findall(self.attributes)
    for branches in _BRANCHES.findall(self.attributes):
      found += [name.strip().lstrip("%") for name in branches.split(",")]
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Module:
  """Computations by name, and which one is run."""

  computations: dict[str, list[Instruction]]
  entry: str

  @functools.cached_property
  def by_name(self) -> dict[str, Instruction]:
    """All instructions; their names are unique in a module."""
    return {
      instruction.name: instruction
      for instructions in self.computations.values()
      for instruction in instructions
    }

  def operand_bytes(self, instruction: Instruction) -> int:
    """Bytes of all operands."""
    return sum(
      type_bytes(self.by_name[name].type) for name in instruction.operands
    )


def parse(text: str) -> Module:
  """Reads `compiled.as_text()`."""
  computations: dict[str, list[Instruction]] = {}
  entry, current = "", []
  for line in text.splitlines():
    if match := _INSTRUCTION.match(line):
      current.append(_instruction(*match.groups()))
    elif match := _HEADER.match(line):
      current = computations.setdefault(match[2], [])
      entry = match[2] if match[1] else entry
  return Module(computations, entry)


def type_bytes(text: str) -> int:
  """Bytes of a type's arrays, without the padding of a layout."""
  bits = 0
  for name, shape in _ARRAY.findall(text):
    sizes = [int(size.lstrip("<=")) for size in shape.split(",") if size]
    digits = re.search(r"\d+", name)
    bits += math.prod(sizes) * (_BITS[name] if not digits else int(digits[0]))
  return bits // 8


def channel(instruction: Instruction) -> int | None:
  """The number by which the ends of a collective know each other."""
  found = re.search(r"channel_id=(\d+)", instruction.attributes)
  return int(found[1]) if found else None


def trip_count(module: Module, loop: Instruction) -> int | None:
  """Returns the number of iterations of a `while`; None if data decides.

  By the compiler's note if there is one, else by the condition, if that
  compares a counter, which the body moves on by a constant, with a constant.
  """
  if known := _KNOWN_TRIPS.search(loop.attributes):
    return int(known[1])
  condition = re.search(r"condition=%?([\w.\-]+)", loop.attributes)[1]
  body = re.search(r"body=%?([\w.\-]+)", loop.attributes)[1]
  root = _root(module, condition)
  if root.opcode != "compare" or "direction=LT" not in root.attributes:
    return None
  counter, limit = (_source(module, name) for name in root.operands)
  index = _tuple_index(counter)
  end = _constant(limit)
  if index is None or end is None:
    return None
  start = _constant(_element(module, loop.operands[0], index))
  step = _increment(module, _element(module, _root(module, body).name, index))
  if start is None or not step:
    return None
  return max(0, -(-(end - start) // step))


def _instruction(root: str | None, name: str, rest: str) -> Instruction:
  type_, rest = _cut(rest)
  opcode, _, rest = rest.strip().partition("(")
  inside, attributes = _cut("(" + rest)
  inside = inside[1:-1]
  return Instruction(
    name=name,
    type=type_,
    opcode=opcode.strip(),
    operands=tuple(_NAME.findall(inside)),
    inside=inside,
    attributes=attributes,
    is_root=bool(root),
  )


def _cut(text: str) -> tuple[str, str]:
  """Splits off what stands before the first space, or in parentheses."""
  if not text.startswith("("):
    first, _, rest = text.partition(" ")
    return first, rest
  depth = 0
  for place, letter in enumerate(text):
    depth += (letter == "(") - (letter == ")")
    if depth == 0:
      return text[: place + 1], text[place + 1 :]
  return text, ""


def _root(module: Module, computation: str) -> Instruction:
  return next(i for i in module.computations[computation] if i.is_root)


def _source(module: Module, name: str) -> Instruction:
  """The instruction whose value a name passes on."""
  instruction = module.by_name[name]
  while instruction.opcode in _PASSED_ON:
    instruction = module.by_name[instruction.operands[0]]
  return instruction


def _element(module: Module, name: str, index: int) -> Instruction:
  """Returns the instruction at an index of a tuple."""
  whole = _source(module, name)
  if whole.opcode != "tuple":
    return whole
  return _source(module, whole.operands[index])


def _constant(instruction: Instruction) -> int | None:
  number = instruction.inside if instruction.opcode == "constant" else ""
  return int(number) if re.fullmatch(r"-?\d+", number) else None


def _tuple_index(instruction: Instruction) -> int | None:
  index = re.search(r"index=(\d+)", instruction.attributes)
  if instruction.opcode != "get-tuple-element" or index is None:
    return None
  return int(index[1])


def _increment(module: Module, instruction: Instruction) -> int | None:
  """Returns the constant that an addition adds to a loop's counter."""
  if instruction.opcode != "add":
    return None
  numbers = [_constant(_source(module, name)) for name in instruction.operands]
  return next((number for number in numbers if number is not None), None)


# Three notations of groups of devices (openxla/xla, hlo/ir/replica_group.cc):
# lists `{{0,1},{2,3}}`, iota tiles `[4,2]<=[2,4]T(1,0)`, and axes of the
# partitioner's own mesh `mesh['a'=4,'b'=2] {'b'}`, perhaps with its order of
# devices, `, device_ids=([2,4]T(1,0))`.
_LISTS = re.compile(r"replica_groups=\{(\{[\d,{} ]*\})?\}")
_IOTA = re.compile(
  r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?"
)
_MESH = re.compile(
  r"replica_groups=@?\w*mesh\[([^\]]*)\]"
  r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? ?\{([^}]*)\}"
)
_PAIRS = re.compile(r"source_target_pairs=\{(\{[\d,{} ]*\})?\}")
_SIZED_AXIS = re.compile(r"'?([\w.]+)'?=(\d+)")
_NAMED_AXIS = re.compile(r"'?([\w.]+)'?(?::\((\d+)\)(\d+))?")


def axes_and_size(
  attributes: str, mesh_shape: Mapping[str, int]
) -> tuple[tuple[str, ...], int]:
  """The mesh axes of a collective, and the devices in a group.

  Devices are numbered in the order of the program's mesh.

  Args:
    attributes: text of the instruction after its operands.
    mesh_shape: sizes of the mesh's axes.

  Returns:
    Axes of more than one device, none if the groups are no axes; and the size
    of a group.
  """
  shape = tuple(mesh_shape.values())
  devices = np.arange(np.prod(shape, dtype=int)).reshape(shape)
  if pairs := _PAIRS.search(attributes):
    return _axes_of_pairs(_rows(pairs[1]), devices, mesh_shape), 2
  groups = _groups(attributes, devices.size)
  return _axes_of_groups(groups, devices, mesh_shape), groups.shape[1]


def _groups(attributes: str, num_devices: int) -> np.ndarray:
  """Device numbers, [groups, devices in a group]."""
  if match := _IOTA.search(attributes):
    sizes, dims = _integers(match[1]), _integers(match[2])
    numbers = np.arange(np.prod(dims)).reshape(dims)
    if match[3]:
      numbers = numbers.transpose(_integers(match[3]))
    return numbers.reshape(sizes[0], -1)
  if match := _MESH.search(attributes):
    order = np.arange(num_devices)
    if match[2]:
      order = _order(_integers(match[2]), match[3], num_devices)
    return order[_groups_of_mesh(match[1], match[4])]
  match = _LISTS.search(attributes)
  if match and match[1]:
    return np.array(_rows(match[1]))
  return np.arange(num_devices)[None]


def _order(
  sizes: list[int], permutation: str | None, num_devices: int
) -> np.ndarray:
  """Device numbers in the order of the partitioner's mesh."""
  if np.prod(sizes) != num_devices:
    return np.array(sizes)
  numbers = np.arange(num_devices).reshape(sizes)
  if permutation:
    numbers = numbers.transpose(_integers(permutation))
  return numbers.ravel()


def _groups_of_mesh(mesh: str, named: str) -> np.ndarray:
  """Groups along axes, or parts `'a':(2)4` of axes, of the partitioner's."""
  sizes = {name: int(size) for name, size in _SIZED_AXIS.findall(mesh)}
  parts = {name: [size] for name, size in sizes.items()}
  chosen = []
  for name, before, size in _NAMED_AXIS.findall(named):
    where = 0
    if size:
      before, size = int(before), int(size)
      parts[name] = [before, size, sizes[name] // (before * size)]
      where = 1
    chosen.append((name, where))
  flat = [(name, i) for name, split in parts.items() for i in range(len(split))]
  numbers = np.arange(np.prod(list(sizes.values()))).reshape(
    [parts[name][i] for name, i in flat]
  )
  places = [flat.index(each) for each in chosen]
  width = int(np.prod([numbers.shape[place] for place in places]))
  last = range(-len(places), 0)
  return np.moveaxis(numbers, places, last).reshape(-1, width)


def _axes_of_groups(groups, devices, mesh_shape) -> tuple[str, ...]:
  wanted = {tuple(sorted(group)) for group in groups.tolist()}
  names = [name for name, size in mesh_shape.items() if size > 1]
  for count in range(1, len(names) + 1):
    for axes in itertools.combinations(names, count):
      places = [list(mesh_shape).index(name) for name in axes]
      moved = np.moveaxis(devices, places, range(-count, 0))
      width = int(np.prod(moved.shape[-count:]))
      along = np.sort(moved.reshape(-1, width), axis=1)
      # Of several slices a program names the groups of its own alone.
      if wanted <= set(map(tuple, along.tolist())):
        return axes
  return ()


def _axes_of_pairs(pairs, devices, mesh_shape) -> tuple[str, ...]:
  """Axes along which a source and its target differ."""
  differs = set()
  for source, target in pairs:
    ends = np.unravel_index([source, target], devices.shape)
    for name, (first, second) in zip(mesh_shape, ends, strict=True):
      if first != second:
        differs.add(name)
  return tuple(name for name in mesh_shape if name in differs)


def _rows(text: str | None) -> list[list[int]]:
  return [_integers(row) for row in re.findall(r"\{([\d, ]+)\}", text or "")]


def _integers(text: str) -> list[int]:
  return [int(number) for number in text.replace(" ", "").split(",")]


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
  module = parse(text)
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
  instruction: Instruction
  times: int
  in_fusion: bool


def _walk(
  module: Module,
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
      trips = trip_count(module, instruction)
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
    number = channel(each.instruction)
    if not each.in_fusion or number is None:
      yield each
    elif number not in spread or each.times < spread[number].times:
      spread[number] = each
  yield from spread.values()


def _kind(instruction: Instruction, computation: str) -> str:
  """The opcode without `-start`.

  libtpu writes a reduce-scatter as a computation of this name, in which an
  all-reduce is cut.
  """
  if "all-reduce-scatter" in computation and instruction.opcode == "all-reduce":
    return "reduce-scatter"
  return instruction.opcode.removesuffix("-start")


def _collective(
  module: Module, found: _Found, mesh_shape: dict[str, int]
) -> Collective:
  kind = found.kind
  axes, group = axes_and_size(found.instruction.attributes, mesh_shape)
  if kind == "send":
    axes, group = (), 2
  operands = module.operand_bytes(found.instruction)
  # A start's own type repeats its operands: those are enough.
  size = operands * group if kind == "all-gather" else operands
  return Collective(kind, axes, group, size, found.times)
