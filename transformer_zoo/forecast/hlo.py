"""The text of a compiled XLA module as computations of instructions.

Reads as much as counting needs: names, types, operands, what is called, and
how often a loop runs. The format is that of `HloModule::ToString`
(openxla/xla, hlo/parser).
"""

import dataclasses
import functools
import math
import re

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
    name: The name, without `%`.
    type: The type as text, a tuple in parentheses.
    opcode: `all-reduce-start`, ...
    operands: names, in order.
    inside: the text between the parentheses (of a constant its value).
    attributes: The text after the closing parenthesis.
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
  """The number of turns of a `while`; None if data decides.

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
  """The operand at an index of a tuple."""
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
  """The number that an addition adds to a loop's counter."""
  if instruction.opcode != "add":
    return None
  numbers = [_constant(_source(module, name)) for name in instruction.operands]
  return next((number for number in numbers if number is not None), None)
