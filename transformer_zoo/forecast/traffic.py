"""Bytes that a compiled program moves through memory, by part and kind.

The text is of one device's program, as for `collectives.py`. Each instruction
that is no part of a fusion reads its operands and writes its result; of an
array of which a fusion reads or writes a slice, the slice counts. Arrays that
the compiler keeps in a TPU's vector memory do not count, and kernels count as
what they are given and give. What stands in a loop counts as often as the loop
runs.
"""

from collections.abc import Iterator
import dataclasses
import math
import re

from transformer_zoo.forecast import collectives
from transformer_zoo.forecast.collectives import Instruction
from transformer_zoo.forecast.collectives import Module

# By the first that is found in the name of the operation, as JAX gives it.
PARTS = (
  ("attention kernel", r"(forward|backward)_kernel"),
  ("cross attention", r"encoder_decoder_attention"),
  ("attention", r"attention|relpos_bias"),
  ("feed-forward", r"/mlp|feed_forward"),
  ("norms", r"norm"),
  ("embedding", r"embed"),
  ("softmax and loss", r"logits|cross_entropy|softmax|head"),
  ("stacked layers", r"dynamic_(update_)?(index|slice)"),
  # All else that is not differentiated.
  ("optimizer", r"^(?!.*jvp)"),
)
_COLLECTIVES = (
  *("all-reduce", "all-gather", "reduce-scatter", "all-to-all"),
  "collective-permute",
)
_FREE = (
  *("parameter", "constant", "tuple", "get-tuple-element", "bitcast"),
  *("after-all", "partition-id", "replica-id", "optimization-barrier"),
  *("while", "conditional", "call"),
)
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)(\[[\d,<=]*\])(\{[^}]*\})?")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_NOTHING = ("token", "opaque")


@dataclasses.dataclass(frozen=True)
class Total:
  """The bytes that operations of a part and kind move in one run.

  Attributes:
    part: The part of the model or step, a name of `PARTS`, "other".
    kind: `products` (fusions with a matrix product in them), `fusions`,
      `kernels`, `copies`, `collectives` or the opcode.
    count: The number of operations.
    bytes: The bytes that they read and write.
  """

  part: str
  kind: str
  count: int
  bytes: int


def totals(text: str, unknown_trips: int = 1) -> list[Total]:
  """The traffic of a compiled program, the largest first.

  Args:
    text: The HLO of one device; empty if nothing was compiled.
    unknown_trips: The number of turns of loops whose end depends on data.
  """
  if not text:
    return []
  module = collectives.parse(text)
  sums: dict[tuple[str, str], list[int]] = {}
  for instruction, times in _run(module, module.entry, 1, unknown_trips):
    moved = _bytes_of(module, instruction)
    if moved:
      key = _part(module, instruction), _kind(module, instruction)
      found = sums.setdefault(key, [0, 0])
      found[0] += times
      found[1] += times * moved
  rows = [Total(*key, *found) for key, found in sums.items()]
  return sorted(rows, key=lambda row: -row.bytes)


def _run(
  module: Module, computation: str, times: int, unknown_trips: int
) -> Iterator[tuple[Instruction, int]]:
  """The instructions of a computation and of its loops, and how often."""
  for instruction in module.computations[computation]:
    inside = times
    if instruction.opcode == "while":
      trips = collectives.trip_count(module, instruction)
      inside = times * (unknown_trips if trips is None else trips)
    if instruction.opcode in ("while", "conditional", "call"):
      for called in instruction.called:
        yield from _run(module, called, inside, unknown_trips)
    elif instruction.opcode not in _FREE and not instruction.opcode.endswith(
      "-done"
    ):
      yield instruction, times


def _bytes_of(module: Module, instruction: Instruction) -> int:
  """Bytes that one run of an instruction reads and writes."""
  opcode = instruction.opcode
  if opcode in ("dynamic-slice", "slice", "gather"):
    return 2 * _size(instruction.type)
  if opcode == "dynamic-update-slice":
    return 2 * _size(module.by_name[instruction.operands[1]].type)
  if 'custom_call_target="AllocateBuffer"' in instruction.attributes:
    return 0
  types = [module.by_name[name].type for name in instruction.operands]
  if opcode in ("copy-start", "slice-start"):
    # The result holds the copy, or the operand and its slice; the operand, or
    # nothing; and what is waited for.
    place = 0 if opcode == "copy-start" else 1
    made = _ARRAY.findall(instruction.type)[place]
    read = _size("".join(made[:2])) if _size(types[0]) else 0
    return read + _size("".join(made))
  if opcode.endswith("-start"):
    return 2 * sum(map(_size, types))
  if opcode != "fusion":
    return _size(instruction.type) + sum(map(_size, types))
  (fused,) = instruction.called
  read = sum(
    min(_size(type_), _read_by(module, fused, place))
    for place, type_ in enumerate(types)
  )
  return read + min(_size(instruction.type), _written_by(module, fused))


def _read_by(module: Module, fused: str, place: int) -> int:
  """Bytes that a fusion reads of a parameter: slices, or all of it."""
  instructions = module.computations[fused]
  (parameter,) = (
    i
    for i in instructions
    if i.opcode == "parameter" and i.inside == str(place)
  )
  read, names = 0, {parameter.name}
  for instruction in instructions:
    if not names.intersection(instruction.operands):
      continue
    if instruction.opcode == "bitcast":
      names.add(instruction.name)
    elif instruction.opcode in ("dynamic-slice", "slice", "gather"):
      read += _size(instruction.type, everywhere=True)
    elif instruction.opcode == "fusion":
      read += sum(
        _read_by(module, instruction.called[0], place)
        for place, name in enumerate(instruction.operands)
        if name in names
      )
    elif (
      instruction.opcode == "dynamic-update-slice"
      and instruction.operands[0] in names
    ):
      continue
    else:
      return 2**62
  return read


def _written_by(module: Module, fused: str) -> int:
  """Bytes that a fusion writes: updates of slices, or all of its result."""
  (root,) = (i for i in module.computations[fused] if i.is_root)
  roots = [root]
  if root.opcode == "tuple":
    roots = [module.by_name[name] for name in root.operands]
  written = 0
  for each in roots:
    while each.opcode == "bitcast":
      each = module.by_name[each.operands[0]]
    if each.opcode == "fusion":
      written += _written_by(module, each.called[0])
      continue
    if each.opcode == "dynamic-update-slice":
      each = module.by_name[each.operands[1]]
    written += _size(each.type, everywhere=True)
  return written


def _size(type_: str, everywhere: bool = False) -> int:
  """Bytes of the arrays of a type that lie in the memory of the device.

  Args:
    type_: The type, with its layouts.
    everywhere: Whether arrays in vector memory count too.
  """
  size = 0
  for name, shape, layout in _ARRAY.findall(type_):
    in_vector_memory = "S(1)" in layout and not everywhere
    if name not in _NOTHING and not in_vector_memory:
      digits = re.search(r"\d+", name)
      bits = 8 if digits is None else int(digits[0])
      sizes = [int(x) for x in re.findall(r"\d+", shape)]
      size += math.prod(sizes) * bits // 8
  return size


def _kind(module: Module, instruction: Instruction) -> str:
  opcode = instruction.opcode.removesuffix("-start")
  if opcode in _COLLECTIVES:
    return "collectives"
  if opcode == "custom-call":
    return "kernels"
  if opcode.startswith("copy") or opcode == "transpose":
    return "copies"
  if opcode != "fusion":
    return opcode
  opcodes = {i.opcode for i in module.computations[instruction.called[0]]}
  if opcodes & {"convolution", "dot"}:
    return "products"
  moves = {"parameter", "copy", "transpose", "bitcast", "tuple"}
  return "copies" if opcodes <= moves else "fusions"


def _part(module: Module, instruction: Instruction) -> str:
  """The part whose name the operation has, or one inside of a fusion."""
  names = _OP_NAME.findall(instruction.attributes)
  for called in instruction.called if not names else ():
    for inner in module.computations[called]:
      names += _OP_NAME.findall(inner.attributes)
  for name in names:
    for part, pattern in PARTS:
      if re.search(pattern, name):
        return part
  return "other"
