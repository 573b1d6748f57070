"""The cost of a function, counted from its jaxpr: no compiler, no device.

XLA's own cost analysis counts the body of a loop once, so a scanned stack costs
there what one layer does; this one multiplies by the length.

The model:
  FLOPs: of a matrix product or convolution two for each multiply-add; of any
  other equation on floating-point numbers one for each element of its result,
  transcendental functions included, of a reduction one for each element that
  it reads. Moving, converting, gathering and integer arithmetic (ids, masks,
  random bits) are free.
  Bytes: matrix products, reductions, gathers, scatters, sorts and kernels read
  their operands and write their results. Elementwise chains are fused with
  those before or after them, and so are conversions and changes of shape; they
  read what enters the function or a loop's body, and write what leaves it.
  Parameters and optimizer state are thus read and written once.
  A kernel reads and writes blocks, each as often as a step of its grid has
  another than the step before.
  Control: the body of a scan times its length, the body of a `shard_map` times
  the devices along its axes, the most expensive branch of a conditional; what
  `jax.checkpoint` computes again is counted again. What nothing uses is not
  counted.

The sizes are sizes of whole arrays, so it is the cost on all devices together,
without what collectives move.

Beside XLA's analysis of a T5.1.1 without loops, compiled for v5e and for CPUs,
FLOPs are 1 % less, and bytes about half: fewer chains fuse than could.
"""

from collections.abc import Callable
import dataclasses
import math

import jax
from jax.extend import core
from jax.interpreters import partial_eval
import jax.numpy as jnp
import numpy as np

from transformer_zoo.errors import UserError

# What an equation does to memory; any other is fused with its neighbours.
_PRODUCTS = ("dot_general", "conv_general_dilated")
# cuDNN's attention, of which the jaxpr shows no inside: its products, including
# the scores that the backward pass computes again.
_ATTENTIONS = {
  "dot_product_attention_fwd_wrapper": 2,
  "dot_product_attention_bwd_wrapper": 5,
}
_REDUCTIONS = (
  "reduce_sum",
  "reduce_max",
  "reduce_min",
  "reduce_prod",
  "reduce_and",
  "reduce_or",
  "argmax",
  "argmin",
)
_REARRANGEMENTS = ("sort", "top_k", "concatenate")
_READS_OF_PARTS = ("gather", "dynamic_slice")
_WRITES_OF_PARTS = (
  "dynamic_update_slice",
  "scatter",
  "scatter-add",
  "scatter-mul",
  "scatter-min",
  "scatter-max",
)
# What index maps of kernels compute.
_OF_PLACES = {
  "add": np.add,
  "broadcast_in_dim": np.asarray,
  "convert_element_type": np.asarray,
  "eq": np.equal,
  "select_n": lambda which, no, yes: np.where(which, yes, no),
  "sub": np.subtract,
}
# They give floating-point numbers and compute none.
_WITHOUT_ARITHMETIC = (
  *_REARRANGEMENTS,
  *_READS_OF_PARTS,
  *_WRITES_OF_PARTS[:2],
  "bitcast_convert_type",
  "broadcast_in_dim",
  "convert_element_type",
  "copy",
  "copy_p",
  "device_put",
  "get",
  "iota",
  "name",
  "optimization_barrier",
  "pad",
  "reshape",
  "rev",
  "sharding_constraint",
  "slice",
  "split",
  "squeeze",
  "stop_gradient",
  "swap",
  "transpose",
)


@dataclasses.dataclass(frozen=True)
class Cost:
  """The operations of a program and the bytes that go through memory.

  Attributes:
    flops: floating-point operations.
    matmul_flops: The FLOPs of matrix products and convolutions among them.
    bytes_accessed: bytes read and written.
  """

  flops: int = 0
  matmul_flops: int = 0
  bytes_accessed: int = 0

  def __add__(self, other: "Cost") -> "Cost":
    return Cost(
      self.flops + other.flops,
      self.matmul_flops + other.matmul_flops,
      self.bytes_accessed + other.bytes_accessed,
    )

  def __mul__(self, times: int) -> "Cost":
    return Cost(
      self.flops * times, self.matmul_flops * times, self.bytes_accessed * times
    )


def count(
  function: Callable, *arguments, while_trips: int | None = None, **keywords
) -> Cost:
  """The cost of one call, by the model of this file.

  Args:
    function: anything that JAX can trace; inside a mesh if it asks for one.
    *arguments: arrays, or shapes and dtypes of arrays.
    while_trips: The number of turns of a `while` loop, which the jaxpr does not
      hold (in decoding, the length of the outputs).
    **keywords: further arguments.

  Raises:
    UserError: there is such a loop, and `while_trips` is not given.
  """
  return _of_jaxpr(trace(function, *arguments, **keywords), while_trips)


def trace(function: Callable, *arguments, **keywords) -> core.Jaxpr:
  """Returns the jaxpr of one call, without unused equations."""
  closed = jax.make_jaxpr(function)(*arguments, **keywords)
  used = [True] * len(closed.jaxpr.outvars)
  jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, used)
  return jaxpr


def _of_jaxpr(jaxpr: core.Jaxpr, while_trips: int | None) -> Cost:
  """The cost of all equations, and of what fused ones read and write."""
  total = Cost()
  read_by_fused, written_by_fused = set(), set()
  for equation in jaxpr.eqns:
    total += _of_equation(equation, while_trips)
    if _is_fused(equation):
      read_by_fused |= _variables(equation.invars)
      written_by_fused.update(equation.outvars)
  entering = read_by_fused.intersection(jaxpr.invars + jaxpr.constvars)
  leaving = written_by_fused.intersection(_variables(jaxpr.outvars))
  return total + Cost(bytes_accessed=bytes_of(entering) + bytes_of(leaving))


def _of_equation(equation: core.JaxprEqn, while_trips: int | None) -> Cost:
  name, params = equation.primitive.name, equation.params
  if not _has_body(equation):
    flops = _flops(equation)
    is_product = name in _PRODUCTS or name in _ATTENTIONS
    return Cost(flops, flops if is_product else 0, _moved_bytes(equation))
  if name == "while":
    return _of_while(equation, while_trips)
  bodies = [_of_jaxpr(b, while_trips) for b in core.jaxprs_in_params(params)]
  if name == "scan":
    return bodies[0] * params["length"]
  if name == "cond":
    return max(bodies, key=lambda cost: (cost.flops, cost.bytes_accessed))
  if name == "shard_map":
    shape, mapped = params["mesh"].shape, params["newly_manual_axes"]
    return bodies[0] * math.prod(shape[axis] for axis in mapped)
  if name == "pallas_call":
    # A body works on blocks that it has read.
    body = bodies[0] * math.prod(params["grid_mapping"].grid)
    return dataclasses.replace(body, bytes_accessed=_blocks_moved(equation))
  return sum(bodies, Cost())


def _blocks_moved(equation: core.JaxprEqn) -> int:
  """Bytes of the blocks that a kernel reads and writes, step by step.

  A block that the next step has too is moved once. Where data decides which
  block a step has, all of the array counts once.
  """
  mapping = equation.params["grid_mapping"]
  first = mapping.num_index_operands
  arrays = [*equation.invars[first:], *equation.outvars]
  moved = bytes_of(equation.invars[:first])
  steps = np.indices(mapping.grid).reshape(len(mapping.grid), -1)
  for block, atom in zip(mapping.block_mappings, arrays, strict=True):
    try:
      places = _evaluate(block.index_map_jaxpr, steps)
    except KeyError:
      moved += bytes_of([atom])
      continue
    places = np.stack([np.broadcast_to(x, steps.shape[1]) for x in places])
    changes = np.any(np.diff(places, axis=1) != 0, axis=0)
    sizes = [getattr(size, "block_size", 1) for size in block.block_shape]
    fetched = (1 + int(changes.sum())) * math.prod(sizes)
    moved += fetched * atom.aval.dtype.itemsize
  return moved


def _evaluate(index_map: core.ClosedJaxpr, arguments) -> list[np.ndarray]:
  """The results of an index map of scalars, of many arguments at once.

  JAX would compute them on the mesh that the program is for.

  Raises:
    KeyError: it reads more than these arguments, or computes otherwise than
      by `_OF_PLACES`.
  """
  jaxpr = index_map.jaxpr
  values = dict(zip(jaxpr.constvars, index_map.consts, strict=True))
  values |= zip(jaxpr.invars, arguments, strict=False)

  def value(atom):
    return atom.val if isinstance(atom, core.Literal) else values[atom]

  for equation in jaxpr.eqns:
    operands = [value(atom) for atom in equation.invars]
    if "jaxpr" in equation.params:
      results = _evaluate(equation.params["jaxpr"], operands)
    else:
      results = [_OF_PLACES[equation.primitive.name](*operands)]
    values |= zip(equation.outvars, results, strict=True)
  return [value(atom) for atom in jaxpr.outvars]


def _of_while(equation: core.JaxprEqn, trips: int | None) -> Cost:
  if trips is None:
    raise UserError(
      "the cost of a while loop depends on how often it runs, which its "
      "program does not say; give while_trips"
    )
  bodies = core.jaxprs_in_params(equation.params)
  return sum((_of_jaxpr(body, trips) for body in bodies), Cost()) * trips


def _has_body(equation: core.JaxprEqn) -> bool:
  """Whether its cost is the cost of the equations inside.

  A scatter and a general reduction have a body of one element.
  """
  return not equation.primitive.name.startswith(("scatter", "reduce")) and any(
    True for _ in core.jaxprs_in_params(equation.params)
  )


def _flops(equation: core.JaxprEqn) -> int:
  """FLOPs of an equation without a body."""
  name, operands = equation.primitive.name, equation.invars
  if name in _WITHOUT_ARITHMETIC or not _is_floating(equation):
    return 0
  if name in _PRODUCTS:
    return 2 * equation.outvars[0].aval.size * _depth(equation)
  if name in _ATTENTIONS:
    query_BLHK, key_BMGK = (operand.aval for operand in operands[:2])
    return 2 * _ATTENTIONS[name] * query_BLHK.size * key_BMGK.shape[1]
  if name in _REDUCTIONS:
    return operands[0].aval.size
  if name in _WRITES_OF_PARTS:
    return operands[2].aval.size
  return equation.outvars[0].aval.size


def _depth(equation: core.JaxprEqn) -> int:
  """Multiply-adds for each element of a product."""
  left, right = (variable.aval.shape for variable in equation.invars)
  numbers = equation.params["dimension_numbers"]
  if equation.primitive.name == "dot_general":
    (contracted, _), _ = numbers
    return math.prod(left[axis] for axis in contracted)
  return math.prod(right) // right[numbers.rhs_spec[0]]


def _is_fused(equation: core.JaxprEqn) -> bool:
  """Whether operands and results stay out of memory."""
  return not _has_body(equation) and equation.primitive.name not in (
    *_PRODUCTS,
    *_ATTENTIONS,
    *_REDUCTIONS,
    *_REARRANGEMENTS,
    *_READS_OF_PARTS,
    *_WRITES_OF_PARTS,
  )


def _moved_bytes(equation: core.JaxprEqn) -> int:
  """Bytes that an equation without a body reads and writes."""
  name = equation.primitive.name
  if _is_fused(equation):
    return 0
  # Of a large array only the part is touched: read once and written once.
  if name in _READS_OF_PARTS:
    return 2 * bytes_of(equation.outvars)
  if name in _WRITES_OF_PARTS:
    updates = equation.invars[1 if name == "dynamic_update_slice" else 2]
    return 3 * bytes_of([updates])
  return _traffic(equation)


def _is_floating(equation: core.JaxprEqn) -> bool:
  """Whether it computes with floating-point numbers; comparing them does."""
  return any(
    jnp.issubdtype(getattr(atom.aval, "dtype", jnp.int32), jnp.inexact)
    for atom in (*equation.invars, *equation.outvars)
  )


def _variables(atoms) -> set[core.Var]:
  return {atom for atom in atoms if not isinstance(atom, core.Literal)}


def _traffic(equation: core.JaxprEqn) -> int:
  """Bytes of all operands and results."""
  return bytes_of(_variables(equation.invars)) + bytes_of(equation.outvars)


def bytes_of(atoms) -> int:
  """Bytes of arrays; a random key has two words."""
  return sum(
    atom.aval.size * getattr(atom.aval.dtype, "itemsize", 8)
    for atom in atoms
    if hasattr(atom.aval, "dtype")
  )
