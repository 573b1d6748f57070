"""Attention block by block in Pallas, for TPUs: forward and backward.

Softmax over blocks of keys with running maxima and sums (Dao et al. 2022,
FlashAttention, algorithms 1 and 4). Scores are kept transposed, keys by
queries, so that the statistics of a query lie along the lanes. Of a bias by
distance a block needs few numbers. They are kept as a tile of eight rows, each
a place further to the right than the one before; the next eight rows of a block
are the same tile, rotated by eight places. The gradient of a block is rotated
back and summed up tile by tile, which sums up its diagonals.

Letters that `axes` lacks: Q and M here are the queries and keys of a block, X
is all heads of a block side by side, R a range of distances.
"""

import functools

import jax
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas
from jax.experimental.pallas import tpu
import jax.numpy as jnp

from transformer_zoo.modules.attention.dot_product import MASKED_SCORE
from transformer_zoo.modules.attention.fused_plan import EMPTY
from transformer_zoo.modules.attention.fused_plan import even_gradient
from transformer_zoo.modules.attention.fused_plan import even_outputs
from transformer_zoo.modules.attention.fused_plan import is_kept
from transformer_zoo.modules.attention.fused_plan import LANES
from transformer_zoo.modules.attention.fused_plan import Plan
from transformer_zoo.modules.attention.fused_plan import RESULTS

# Up to so many bytes the gradients of a row's queries stay in vector memory.
MOST_BYTES_OF_QUERIES = 2**22
# Neighbouring rows that a rotation moves together.
TILE = 8


class _Block:
  """What both kernels compute of one block of queries and one of keys.

  Attributes:
    plan: The plan.
    refs: The arrays of the block by name.
    row, query, key, heads: The numbers of the block along each axis.
  """

  def __init__(self, plan: Plan, refs, heads, row, query, key):
    self.plan, self.refs = plan, refs
    self.heads, self.row, self.query, self.key = heads, row, query, key

  def is_needed(self) -> jax.Array | bool:
    """False only if no query of the block sees any of its keys."""
    plan = self.plan
    if not plan.masked:
      return True
    row = self.row if plan.mask_rows > 1 else 0
    bounds_q, bounds_k = self.refs["bounds_q"], self.refs["bounds_k"]
    place = 4 * (row * plan.blocks_q + self.query)
    least_id, most_id, first, last = (bounds_q[place + i] for i in range(4))
    start = self.key * plan.block_k
    needed = (first < start + plan.block_k) & (last >= start)
    if plan.has_ids:
      place = 2 * (row * plan.blocks_k + self.key)
      needed &= (bounds_k[place] <= most_id) & (bounds_k[place + 1] >= least_id)
    return needed

  def seen(self) -> jax.Array | None:
    """Which keys the queries see, bool [M, Q]; None if all."""
    plan, refs = self.plan, self.refs
    if not plan.masked:
      return None
    shape = plan.block_k, plan.block_q
    parts, queries = [], iter(range(3))
    if plan.has_ids:
      ids_1M = refs["key_ids"][0]
      ids_M1 = jnp.broadcast_to(ids_1M, (LANES, plan.block_k)).T[:, :1]
      next_ = next(queries)
      parts.append(ids_M1 == refs["query_info"][0, next_ : next_ + 1])
    if plan.has_first or plan.has_last:
      keys_MQ = lax.broadcasted_iota(jnp.int32, shape, 0)
      keys_MQ += self.key * plan.block_k
    if plan.has_first:
      next_ = next(queries)
      parts.append(keys_MQ >= refs["query_info"][0, next_ : next_ + 1])
    if plan.has_last:
      next_ = next(queries)
      parts.append(keys_MQ <= refs["query_info"][0, next_ : next_ + 1])
    return functools.reduce(jnp.logical_and, parts)

  def scores(self, head: int, seen_MQ: jax.Array | None) -> jax.Array:
    """The scores of a head, float32 [M, Q]."""
    plan, refs = self.plan, self.refs
    scores_MQ = _dot(
      refs["key"][0, :, plan.group_lanes(head)],
      refs["query"][0, :, plan.lanes(head)],
      1,
      1,
    )
    if "bias" in refs:
      scores_MQ += self._bias(head)
    if seen_MQ is not None:
      scores_MQ = jnp.where(seen_MQ, scores_MQ, MASKED_SCORE)
    return scores_MQ

  def gradients(self, head: int, seen_MQ: jax.Array | None):
    """Weights after dropout and the gradient of the scores, [M, Q] each."""
    plan, refs = self.plan, self.refs
    here, lanes = slice(head, head + 1), plan.lanes(head)
    scores_MQ = self.scores(head, seen_MQ)
    weights_MQ = jnp.exp(scores_MQ - refs["log_total"][0, 0, here])
    if seen_MQ is not None:
      weights_MQ = jnp.where(seen_MQ, weights_MQ, 0.0)
    value_MK = refs["value"][0, :, plan.group_lanes(head)]
    gradient_MQ = _dot(value_MK, refs["given"][0, :, lanes], 1, 1)
    kept_MQ = weights_MQ
    if plan.drops:
      keep_MQ = jnp.where(self.kept(head), 1 / plan.keep_rate, 0.0)
      kept_MQ = weights_MQ * keep_MQ
      gradient_MQ *= keep_MQ
    return kept_MQ, weights_MQ * (gradient_MQ - refs["even_out"][0, 0, here])

  def _bias(self, head: int) -> jax.Array:
    """The bias of a head: tile t of its rows begins t tiles to the right."""
    tile_TR = self.refs["bias"][0, _tile(head), self._distances()]
    block_k = self.plan.block_k
    tiles = [
      tpu.roll(tile_TR, start, 1)[:, block_k:]
      for start in range(0, block_k, TILE)
    ]
    return jnp.concatenate(tiles, axis=0)

  def add_by_distance(self, head: int, gradient_MQ: jax.Array) -> None:
    """Adds the gradient of the scores to the bias's gradient, by tiles."""
    block_k = self.plan.block_k
    before_TM = jnp.zeros((TILE, block_k), jnp.float32)
    total_TR = 0.0
    for start in range(0, block_k, TILE):
      tile_TQ = gradient_MQ[start : start + TILE]
      tile_TR = jnp.concatenate([before_TM, tile_TQ], axis=1)
      width = tile_TR.shape[1]
      total_TR += tpu.roll(tile_TR, (width - start) % width, 1)
    self.refs["bias_gradient"][0, _tile(head), self._distances()] += total_TR

  def _distances(self):
    """The range of query minus key + padded_memory, and block_k before."""
    plan = self.plan
    start = (self.query * plan.block_q) - (self.key + 1) * plan.block_k
    start = pallas.multiple_of(start + plan.padded_memory, LANES)
    return pallas.ds(start, plan.block_q + plan.block_k)

  def kept(self, head: int) -> jax.Array:
    """Which weights of a head dropout keeps, bool [M, Q]."""
    plan, keys = self.plan, self.refs["dropout_keys"]
    shape = plan.block_k, plan.block_q
    place = self.row * plan.heads + self.heads * plan.block_h + head
    places = (
      lax.broadcasted_iota(jnp.int32, shape, 1) + self.query * plan.block_q,
      lax.broadcasted_iota(jnp.int32, shape, 0) + self.key * plan.block_k,
    )
    key = keys[2 * place], keys[2 * place + 1]
    return is_kept(key, places, plan.keep_rate)


def _tile(head: int) -> slice:
  return slice(head * TILE, (head + 1) * TILE)


def _dot(x, y, axis_of_x: int, axis_of_y: int) -> jax.Array:
  return lax.dot_general(
    x,
    y,
    (((axis_of_x,), (axis_of_y,)), ((), ())),
    preferred_element_type=jnp.float32,
  )


def _forward_kernel(plan: Plan, names, *refs):
  """Grid of heads, rows, queries, keys."""
  refs = dict(zip(names, refs, strict=True))
  heads, row, query, key = (pallas.program_id(i) for i in range(4))
  block = _Block(plan, refs, heads, row, query, key)
  most, total, context = refs["most"], refs["total"], refs["context_T"]

  @pallas.when(key == 0)
  def _start():
    most[...] = jnp.full(most.shape, -jnp.inf, most.dtype)
    total[...] = jnp.zeros(total.shape, total.dtype)
    context[...] = jnp.zeros(context.shape, context.dtype)
    if plan.masked:
      values = refs["values"]
      values[...] = jnp.zeros(values.shape, values.dtype)

  if plan.masked:
    # Of queries that see nothing; padded values are zeros.
    ones = jnp.ones((plan.block_k, LANES), refs["value"].dtype)
    refs["values"][...] += _dot(refs["value"][0], ones, 0, 0)

  @pallas.when(block.is_needed())
  def _attend():
    seen_MQ = block.seen()
    for head in range(plan.block_h):
      here, lanes = slice(head, head + 1), plan.lanes(head)
      scores_MQ = block.scores(head, seen_MQ)
      before_1Q = most[here]
      most_1Q = jnp.maximum(before_1Q, jnp.max(scores_MQ, 0, keepdims=True))
      weights_MQ = jnp.exp(scores_MQ - most_1Q)
      shrink_1Q = jnp.exp(before_1Q - most_1Q)
      most[here] = most_1Q
      total[here] = shrink_1Q * total[here] + jnp.sum(
        weights_MQ, 0, keepdims=True
      )
      if plan.drops:
        weights_MQ = jnp.where(block.kept(head), weights_MQ, 0.0)
      value_MK = refs["value"][0, :, plan.group_lanes(head)]
      context[lanes] = shrink_1Q * context[lanes] + _dot(
        value_MK, weights_MQ.astype(value_MK.dtype), 0, 0
      )

  @pallas.when(key == plan.blocks_k - 1)
  def _finish():
    for head in range(plan.block_h):
      here, lanes = slice(head, head + 1), plan.lanes(head)
      context_KQ = context[lanes] / (plan.keep_rate * total[here])
      if plan.masked:
        mean_K1 = refs["values"][plan.group_lanes(head), :1] / plan.memory
        context_KQ = jnp.where(most[here] > EMPTY, context_KQ, mean_K1)
      context[lanes] = context_KQ
      refs["log_total"][0, 0, here] = most[here] + jnp.log(total[here])
    out = refs["out"]
    out[0] = context[...].T.astype(out.dtype)


def _backward_kernel(plan: Plan, names, *refs):
  """Grid of heads, rows, keys, queries."""
  refs = dict(zip(names, refs, strict=True))
  heads, row, key, query = (pallas.program_id(i) for i in range(4))
  block = _Block(plan, refs, heads, row, query, key)
  key_sum, value_sum = refs["key_sum"], refs["value_sum"]
  keeps_queries = "query_sum" in refs

  if "bias" in refs:

    @pallas.when((row == 0) & (key == 0) & (query == 0))
    def _start_heads():
      gradient = refs["bias_gradient"]
      gradient[...] = jnp.zeros(gradient.shape, gradient.dtype)

  @pallas.when(query == 0)
  def _start_keys():
    key_sum[...] = jnp.zeros(key_sum.shape, key_sum.dtype)
    if plan.masked:
      value_sum[...] = jnp.broadcast_to(refs["even"][0], value_sum.shape)
    else:
      value_sum[...] = jnp.zeros(value_sum.shape, value_sum.dtype)

  if keeps_queries:
    query_sum = refs["query_sum"]

    @pallas.when(key == 0)
    def _start_queries():
      query_sum[query] = jnp.zeros(query_sum.shape[1:], query_sum.dtype)

  @pallas.when(block.is_needed())
  def _differentiate():
    seen_MQ = block.seen()
    for head in range(plan.block_h):
      lanes, shared = plan.lanes(head), plan.group_lanes(head)
      kept_MQ, gradient_MQ = block.gradients(head, seen_MQ)
      given_QK = refs["given"][0, :, lanes]
      query_QK = refs["query"][0, :, lanes]
      value_sum[:, shared] += _dot(
        kept_MQ.astype(given_QK.dtype), given_QK, 1, 0
      )
      if "bias" in refs:
        block.add_by_distance(head, gradient_MQ)
      gradient_MQ = gradient_MQ.astype(query_QK.dtype)
      key_sum[:, shared] += _dot(gradient_MQ, query_QK, 1, 0)
      if keeps_queries:
        query_sum[query, lanes] += _dot(
          refs["key"][0, :, shared], gradient_MQ, 0, 0
        )

  @pallas.when(query == plan.blocks_q - 1)
  def _finish_keys():
    for name in ("key", "value"):
      out = refs[f"{name}_gradient"]
      out[0] = refs[f"{name}_sum"][...].astype(out.dtype)

  if keeps_queries:

    @pallas.when(key == plan.blocks_k - 1)
    def _finish_queries():
      out = refs["query_gradient"]
      out[0] = query_sum[query].T.astype(out.dtype)


def _queries_kernel(plan: Plan, names, *refs):
  """Grid of heads, rows, queries, keys: the gradient of long rows' queries."""
  refs = dict(zip(names, refs, strict=True))
  heads, row, query, key = (pallas.program_id(i) for i in range(4))
  block = _Block(plan, refs, heads, row, query, key)
  query_sum = refs["query_sum"]

  @pallas.when(key == 0)
  def _start():
    query_sum[...] = jnp.zeros(query_sum.shape, query_sum.dtype)

  @pallas.when(block.is_needed())
  def _differentiate():
    seen_MQ = block.seen()
    for head in range(plan.block_h):
      _, gradient_MQ = block.gradients(head, seen_MQ)
      key_MK = refs["key"][0, :, plan.group_lanes(head)]
      query_sum[plan.lanes(head)] += _dot(
        key_MK, gradient_MQ.astype(key_MK.dtype), 0, 0
      )

  @pallas.when(key == plan.blocks_k - 1)
  def _finish():
    out = refs["query_gradient"]
    out[0] = query_sum[...].T.astype(out.dtype)


def attend(plan: Plan, query_BLX, key_BMX, value_BMX, bias_HR, others):
  """Returns the context, [B, padded_length, H * K].

  Args:
    plan: The plan.
    query_BLX: queries of padded_length, all heads side by side.
    key_BMX: keys of padded_memory.
    value_BMX: values of padded_memory.
    bias_HR: The bias as of `fused_plan.padded_bias`, float32, or None.
    others: int32 arrays by name: of a mask `query_info` [1 or B, n, L], those
      of id, first and last that the plan has, `key_ids` [1 or B, 1, M] and what
      `fused_plan.bounds` returns; of dropout `dropout_keys` [2 B H].
  """
  bias_HTR = None if bias_HR is None else _tiles(bias_HR)
  return _attend(plan, query_BLX, key_BMX, value_BMX, bias_HTR, others)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(plan: Plan, query_BLX, key_BMX, value_BMX, bias_HTR, others):
  out, _ = _forward(plan, query_BLX, key_BMX, value_BMX, bias_HTR, others)
  return out


def _tiles(bias_HR: jax.Array) -> jax.Array:
  """The bias of tiles: row t at place r is the bias at place r - t."""
  width = bias_HR.shape[1]
  rows = [jnp.pad(bias_HR, ((0, 0), (t, 0)))[:, :width] for t in range(TILE)]
  return jnp.stack(rows, axis=1)


# Axes of the grid; the axes of queries and keys follow.
_HEAD, _ROW, _ORDER = 0, 1, 2
_SCALARS = "bounds_q", "bounds_k", "dropout_keys"


def _specs(plan: Plan, query: int, key: int):
  """The block of every array, by name.

  Args:
    plan: The plan.
    query: The axis of the grid that counts blocks of queries.
    key: The axis of the grid that counts blocks of keys.
  """

  def block(shape, *axes):
    """A block whose place along each axis is an id of the grid, or 0."""

    def index(*ids):
      return tuple(0 if axis is None else ids[axis] for axis in axes)

    return pallas.BlockSpec(shape, index)

  def last_pass(*ids):
    """Gradients of queries are complete, and written, in the last pass."""
    is_last = ids[key] == plan.blocks_k - 1
    return ids[_ROW], jnp.where(is_last, ids[query], 0), ids[_HEAD]

  block_q, block_k, block_h = plan.block_q, plan.block_k, plan.block_h
  width, shared = plan.width, plan.shared_width
  distances = plan.padded_length + plan.padded_memory
  of_mask = _ROW if plan.mask_rows > 1 else None
  infos = sum((plan.has_ids, plan.has_first, plan.has_last))
  queries = block((1, block_q, width), _ROW, query, _HEAD)
  of_passes = pallas.BlockSpec((1, block_q, width), last_pass)
  keys = block((1, block_k, shared), _ROW, key, _HEAD)
  statistics = block((1, 1, block_h, block_q), _ROW, _HEAD, None, query)
  bias = block((1, block_h * TILE, distances), _HEAD, None, None)
  return {
    **dict.fromkeys(("query", "given", "out"), queries),
    **dict.fromkeys(("key", "value", "key_gradient", "value_gradient"), keys),
    **dict.fromkeys(("log_total", "even_out"), statistics),
    **dict.fromkeys(("bias", "bias_gradient"), bias),
    "query_gradient": queries if query < key else of_passes,
    "query_info": block((1, infos, block_q), of_mask, None, query),
    "key_ids": block((1, 1, block_k), of_mask, None, key),
    "even": block((1, 1, shared), _ROW, None, _HEAD),
  }


def _call(plan: Plan, kernel, order, inputs, outputs, scratch, products):
  """Calls a kernel on named arrays; returns its outputs by name.

  Args:
    plan: The plan.
    kernel: The function of plan, names and blocks.
    order: The third and the fourth axis of the grid, "query" and "key".
    inputs: The arrays, by name.
    outputs: The shapes and dtypes of the results, by name.
    scratch: The shapes of what is kept between blocks, float32, by name.
    products: The number of matrix products of a block of each head.
  """
  rows = len(inputs["query"])
  specs = _specs(plan, *(_ORDER + order.index(x) for x in ("query", "key")))
  blocks = {"query": plan.blocks_q, "key": plan.blocks_k}
  scalars = {name: inputs[name] for name in _SCALARS if name in inputs}
  arrays = {name: x for name, x in inputs.items() if name not in scalars}
  pairs = rows * plan.heads * plan.padded_length * plan.padded_memory
  moved = [*inputs.values(), *outputs.values()]
  call = pallas.pallas_call(
    functools.partial(kernel, plan, (*scalars, *arrays, *outputs, *scratch)),
    grid_spec=tpu.PrefetchScalarGridSpec(
      num_scalar_prefetch=len(scalars),
      grid=(plan.blocks_h, rows, *(blocks[axis] for axis in order)),
      in_specs=[specs[name] for name in arrays],
      out_specs=[specs[name] for name in outputs],
      scratch_shapes=[tpu.VMEM(x, jnp.float32) for x in scratch.values()],
    ),
    out_shape=[
      jax.ShapeDtypeStruct(x.shape, x.dtype) for x in outputs.values()
    ],
    compiler_params=tpu.CompilerParams(
      # Rows are in turn: the gradient of a bias is summed up over them.
      dimension_semantics=("parallel", "arbitrary", "arbitrary", "arbitrary")
    ),
    # As if no block were skipped.
    cost_estimate=pallas.CostEstimate(
      flops=2 * products * pairs * plan.head_dim,
      transcendentals=pairs,
      bytes_accessed=sum(x.size * x.dtype.itemsize for x in moved),
    ),
    interpret=plan.interpreted,
    name=kernel.__name__.strip("_"),
  )
  # JAX removes an unused call of a function, as after remat, but no kernel.
  results = jax.jit(call)(*scalars.values(), *arrays.values())
  return dict(zip(outputs, results, strict=True))


def _inputs(plan: Plan, bias_HTR, others):
  """The inputs that both kernels read, but queries, keys and values."""
  if bias_HTR is None:
    return others
  shape = plan.blocks_h, plan.block_h * TILE, bias_HTR.shape[-1]
  return {**others, "bias": bias_HTR.reshape(shape)}


def _forward(plan: Plan, query_BLX, key_BMX, value_BMX, bias_HTR, others):
  inputs = {"query": query_BLX, "key": key_BMX, "value": value_BMX}
  inputs |= _inputs(plan, bias_HTR, others)
  shape = (len(query_BLX), plan.blocks_h, plan.block_h, plan.padded_length)
  outputs = {
    "out": jax.ShapeDtypeStruct(query_BLX.shape, query_BLX.dtype),
    "log_total": jax.ShapeDtypeStruct(shape, jnp.float32),
  }
  scratch = {
    "most": (plan.block_h, plan.block_q),
    "total": (plan.block_h, plan.block_q),
    "context_T": (plan.width, plan.block_q),
  }
  if plan.masked:
    scratch["values"] = (plan.shared_width, LANES)
  order = "query", "key"
  results = _call(
    plan, _forward_kernel, order, inputs, outputs, scratch, products=2
  )
  # Named here, in the rule that is differentiated: a policy sees nothing else.
  out_BLX, log_total = checkpoint_name(
    (results["out"], results["log_total"]), RESULTS
  )
  kept = query_BLX, key_BMX, value_BMX, bias_HTR, others, out_BLX, log_total
  return out_BLX, kept


def _backward(plan: Plan, kept, given_BLX):
  query_BLX, key_BMX, value_BMX, bias_HTR, others, out_BLX, log_total = kept
  inputs = {
    "query": query_BLX,
    "key": key_BMX,
    "value": value_BMX,
    "given": given_BLX,
    "log_total": log_total,
    "even_out": even_outputs(plan, given_BLX, out_BLX).reshape(log_total.shape),
  }
  if plan.masked:
    log_total_BHL = log_total.reshape(len(log_total), plan.heads, -1)
    inputs["even"] = even_gradient(plan, given_BLX, log_total_BHL)
  inputs |= _inputs(plan, bias_HTR, others)
  keys = {"key_gradient": key_BMX, "value_gradient": value_BMX}
  if bias_HTR is not None:
    keys["bias_gradient"] = inputs["bias"]
  sums = {
    "key_sum": (plan.block_k, plan.shared_width),
    "value_sum": (plan.block_k, plan.shared_width),
  }
  queries = {"query_gradient": query_BLX}
  order = "key", "query"
  if 4 * plan.width * plan.padded_length <= MOST_BYTES_OF_QUERIES:
    sums["query_sum"] = (plan.blocks_q, plan.width, plan.block_q)
    results = _call(
      plan, _backward_kernel, order, inputs, keys | queries, sums, products=5
    )
  else:
    results = _call(
      plan, _backward_kernel, order, inputs, keys, sums, products=4
    )
    order, sums = ("query", "key"), {"query_sum": (plan.width, plan.block_q)}
    results |= _call(
      plan, _queries_kernel, order, inputs, queries, sums, products=3
    )
  bias_gradient = None
  if bias_HTR is not None:
    bias_gradient = results["bias_gradient"].reshape(bias_HTR.shape)
  return (
    results["query_gradient"],
    results["key_gradient"],
    results["value_gradient"],
    bias_gradient,
    None,
  )


_attend.defvjp(_forward, _backward)
