"""Attention block by block in Pallas, for NVIDIA GPUs by Triton.

The algorithm of `fused_tpu.py` where blocks run in any order and keep nothing
for each other: three kernels go backward, for keys and values, for queries and
for the bias, each of which computes the weights again. A bias by distance is
gathered; blocks on one diagonal have the same one, and their gradients are
summed up before its diagonals are.
"""

import functools

import jax
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas
from jax.experimental.pallas import triton
import jax.numpy as jnp

from transformer_zoo.modules.attention.dot_product import MASKED_SCORE
from transformer_zoo.modules.attention.fused_plan import EMPTY
from transformer_zoo.modules.attention.fused_plan import even_gradient
from transformer_zoo.modules.attention.fused_plan import even_outputs
from transformer_zoo.modules.attention.fused_plan import is_kept
from transformer_zoo.modules.attention.fused_plan import Plan
from transformer_zoo.modules.attention.fused_plan import RESULTS

_dot = functools.partial(triton.dot, allow_tf32=False)


class _Rows:
  """What the kernels compute of blocks of queries and keys of one head.

  Attributes:
    plan: The plan.
    refs: The arrays by name; arrays of a mask and of statistics are whole.
    row: The row of the batch among the rows of `refs`.
    place: The row of the batch.
    head: The head among all.
    local: The head among the heads of `refs`.
  """

  def __init__(self, plan: Plan, refs, place, head, row=0, local=0):
    self.plan, self.refs, self.place, self.head = plan, refs, place, head
    self.row, self.local = row, local
    self.mask_row = row if plan.mask_rows > 1 else 0

  def query(self, name: str, query) -> jax.Array:
    """The block of an array that has the shape of the queries, [Q, K]."""
    width = self.plan.head_dim
    lanes = pallas.ds(self.local * width, width)
    return self.refs[name][self.row, self._queries(query), lanes]

  def key(self, name: str, key) -> jax.Array:
    """The block of the keys or values, [M, K]."""
    keys = pallas.ds(key * self.plan.block_k, self.plan.block_k)
    return self.refs[name][self.row, keys, :]

  def statistic(self, name: str, query) -> jax.Array:
    """A statistic of the queries of a block, [Q]."""
    return self.refs[name][self.row, self.local, self._queries(query)]

  def _queries(self, query):
    return pallas.ds(query * self.plan.block_q, self.plan.block_q)

  def is_needed(self, query, key):
    """False only if no query of the block sees any of its keys."""
    if not self.plan.masked:
      return query >= 0
    bounds_q, bounds_k = self.refs["bounds_q"], self.refs["bounds_k"]
    least, most, first, last = (
      bounds_q[self.mask_row, query, i] for i in range(4)
    )
    key_least, key_most = (bounds_k[self.mask_row, key, i] for i in range(2))
    start = key * self.plan.block_k
    return (
      (first < start + self.plan.block_k)
      & (last >= start)
      & (key_least <= most)
      & (key_most >= least)
    )

  def places(self, query, key):
    """The places of queries and keys of a block, [Q, M] each."""
    shape = self.plan.block_q, self.plan.block_k
    return (
      lax.broadcasted_iota(jnp.int32, shape, 0) + query * self.plan.block_q,
      lax.broadcasted_iota(jnp.int32, shape, 1) + key * self.plan.block_k,
    )

  def scores(self, query_QK, key_MK, query, key):
    """The scores of a block, float32 [Q, M], and which are seen or None."""
    plan, refs = self.plan, self.refs
    scores_QM = _dot(query_QK, key_MK, trans_b=True)
    queries_QM, keys_QM = self.places(query, key)
    if "bias" in refs:
      distances_QM = queries_QM - keys_QM + plan.padded_memory
      scores_QM += triton.load(refs["bias"].at[self.local, distances_QM])
    if not plan.masked:
      return scores_QM, None
    seen_QM, infos = None, iter(range(3))

    def info_Q1():
      here = self._queries(query)
      return refs["query_info"][self.mask_row, next(infos), here][:, None]

    if plan.has_ids:
      keys = pallas.ds(key * plan.block_k, plan.block_k)
      ids_1M = refs["key_ids"][self.mask_row, 0, keys][None]
      seen_QM = info_Q1() == ids_1M
    for is_read, compare in (
      (plan.has_first, jnp.greater_equal),
      (plan.has_last, jnp.less_equal),
    ):
      if is_read:
        near_QM = compare(keys_QM, info_Q1())
        seen_QM = near_QM if seen_QM is None else seen_QM & near_QM
    return jnp.where(seen_QM, scores_QM, MASKED_SCORE), seen_QM

  def kept(self, query, key):
    """Which weights dropout keeps, bool [Q, M]."""
    keys = self.refs["dropout_keys"]
    place = 2 * (self.place * self.plan.heads + self.head)
    return is_kept(
      (keys[place], keys[place + 1]),
      self.places(query, key),
      self.plan.keep_rate,
    )

  def gradients(self, query, key):
    """Weights after dropout and the gradient of the scores, [Q, M] each."""
    query_QK, key_MK = self.query("query", query), self.key("key", key)
    scores_QM, seen_QM = self.scores(query_QK, key_MK, query, key)
    log_total_Q1 = self.statistic("log_total", query)[:, None]
    weights_QM = jnp.exp(scores_QM - log_total_Q1)
    if seen_QM is not None:
      weights_QM = jnp.where(seen_QM, weights_QM, 0.0)
    given_QK = self.query("given", query)
    gradient_QM = _dot(given_QK, self.key("value", key), trans_b=True)
    kept_QM = weights_QM
    if self.plan.drops:
      keep_QM = jnp.where(self.kept(query, key), 1 / self.plan.keep_rate, 0.0)
      kept_QM, gradient_QM = weights_QM * keep_QM, gradient_QM * keep_QM
    even_Q1 = self.statistic("even_out", query)[:, None]
    return kept_QM, weights_QM * (gradient_QM - even_Q1)


def _if_needed(rows: _Rows, query, key, update, state):
  """The state after a block of queries and keys, if it is needed."""
  return lax.cond(
    rows.is_needed(query, key), update, lambda state: state, state
  )


def _forward_kernel(plan: Plan, names, *refs):
  """Grid of queries, heads, rows."""
  refs = dict(zip(names, refs, strict=True))
  query, head, row = (pallas.program_id(i) for i in range(3))
  rows = _Rows(plan, refs, row, head)
  query_QK = rows.query("query", query)

  def attend(key, state):
    def update(state):
      most_Q, total_Q, context_QK = state
      scores_QM, _ = rows.scores(query_QK, rows.key("key", key), query, key)
      now_Q = jnp.maximum(most_Q, jnp.max(scores_QM, axis=1))
      weights_QM = jnp.exp(scores_QM - now_Q[:, None])
      shrink_Q = jnp.exp(most_Q - now_Q)
      total_Q = shrink_Q * total_Q + jnp.sum(weights_QM, axis=1)
      if plan.drops:
        weights_QM = jnp.where(rows.kept(query, key), weights_QM, 0.0)
      value_MK = rows.key("value", key)
      context_QK = shrink_Q[:, None] * context_QK + _dot(
        weights_QM.astype(value_MK.dtype), value_MK
      )
      return now_Q, total_Q, context_QK

    return _if_needed(rows, query, key, update, state)

  zeros_Q = jnp.zeros(plan.block_q, jnp.float32)
  state = zeros_Q - jnp.inf, zeros_Q, jnp.zeros(query_QK.shape, jnp.float32)
  most_Q, total_Q, context_QK = lax.fori_loop(0, plan.blocks_k, attend, state)
  context_QK /= plan.keep_rate * total_Q[:, None]
  if plan.masked:
    mean_1K = refs["mean"][0]
    context_QK = jnp.where(most_Q[:, None] > EMPTY, context_QK, mean_1K)
  refs["out"][0] = context_QK.astype(refs["out"].dtype)
  refs["log_total"][0, 0] = most_Q + jnp.log(total_Q)


def _keys_kernel(plan: Plan, names, *refs):
  """Grid of keys, groups, rows: the gradients of keys and values."""
  refs = dict(zip(names, refs, strict=True))
  key, group, row = (pallas.program_id(i) for i in range(3))
  shared_by = plan.heads // plan.groups
  shape = plan.block_k, plan.head_dim
  state = jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32)
  if plan.masked:
    state = state[0], state[1] + refs["even"][0]
  for local in range(shared_by):
    rows = _Rows(plan, refs, row, group * shared_by + local, local=local)

    def add(query, state, rows=rows):
      def update(state):
        kept_QM, gradient_QM = rows.gradients(query, key)
        query_QK, given_QK = (
          rows.query("query", query),
          rows.query("given", query),
        )
        return (
          state[0]
          + _dot(gradient_QM.astype(query_QK.dtype), query_QK, trans_a=True),
          state[1]
          + _dot(kept_QM.astype(given_QK.dtype), given_QK, trans_a=True),
        )

      return _if_needed(rows, query, key, update, state)

    state = lax.fori_loop(0, plan.blocks_q, add, state)
  for name, total_MK in zip(("key", "value"), state, strict=True):
    out = refs[f"{name}_gradient"]
    out[0] = total_MK.astype(out.dtype)


def _queries_kernel(plan: Plan, names, *refs):
  """Grid of queries, heads, rows: the gradient of the queries."""
  refs = dict(zip(names, refs, strict=True))
  query, head, row = (pallas.program_id(i) for i in range(3))
  rows = _Rows(plan, refs, row, head)

  def add(key, total_QK):
    def update(total_QK):
      _, gradient_QM = rows.gradients(query, key)
      key_MK = rows.key("key", key)
      return total_QK + _dot(gradient_QM.astype(key_MK.dtype), key_MK)

    return _if_needed(rows, query, key, update, total_QK)

  zeros_QK = jnp.zeros((plan.block_q, plan.head_dim), jnp.float32)
  total_QK = lax.fori_loop(0, plan.blocks_k, add, zeros_QK)
  out = refs["query_gradient"]
  out[0] = total_QK.astype(out.dtype)


def _bias_kernel(plan: Plan, names, *refs):
  """Grid of diagonals of blocks, heads: sums of the gradients of scores."""
  refs = dict(zip(names, refs, strict=True))
  diagonal, head = (pallas.program_id(i) for i in range(2))
  ahead = diagonal - (plan.blocks_q - 1)  # block of keys minus block of queries
  first = jnp.maximum(0, -ahead)
  last = jnp.minimum(plan.blocks_q, plan.blocks_k - ahead)

  def add_row(row, total_QM):
    rows = _Rows(plan, refs, row, head, row=row)

    def add(query, total_QM):
      def update(total_QM):
        return total_QM + rows.gradients(query, query + ahead)[1]

      return _if_needed(rows, query, query + ahead, update, total_QM)

    return lax.fori_loop(first, last, add, total_QM)

  zeros_QM = jnp.zeros((plan.block_q, plan.block_k), jnp.float32)
  refs["diagonals"][0, 0] = lax.fori_loop(
    0, refs["query"].shape[0], add_row, zeros_QM
  )


def _specs(plan: Plan, grid, rows: int):
  """The block of every array, by name.

  Args:
    plan: The plan.
    grid: The axis of the grid of "row" and "head" or "group", and of "query" or
      "key" where a result has a block of them; other axes are whole.
    rows: The number of rows of the batch.
  """

  def block(shape, *axes):
    """A block whose place along each axis is an id of the grid, or 0."""

    def index(*ids):
      return tuple(ids[grid[axis]] if axis in grid else 0 for axis in axes)

    return pallas.BlockSpec(shape, index)

  heads = plan.heads // plan.groups if "group" in grid else 1
  head = "group" if "group" in grid else "head"
  row = 1 if "row" in grid else rows
  mask_row = min(row, plan.mask_rows)
  of_mask = "row" if plan.mask_rows > 1 else None
  length, memory, width = plan.padded_length, plan.padded_memory, plan.head_dim
  shared_by = plan.heads // plan.groups

  def keys(shape, axis):
    """Of one head of keys and values, which neighbouring heads share."""

    def index(*ids):
      group = ids[grid[head]] // (1 if "group" in grid else shared_by)
      of_row = ids[grid["row"]] if "row" in grid else 0
      return of_row, ids[grid[axis]] if axis in grid else 0, group

    return pallas.BlockSpec(shape, index)

  queries = block((row, length, heads * width), "row", None, head)
  whole_keys = keys((row, memory, width), None)
  statistics = block((row, heads, length), "row", head, None)
  infos = sum((plan.has_ids, plan.has_first, plan.has_last))
  out = block((1, plan.block_q, width), "row", "query", head)
  return {
    **dict.fromkeys(("query", "given"), queries),
    **dict.fromkeys(("key", "value"), whole_keys),
    **dict.fromkeys(("even_out", "log_total"), statistics),
    **dict.fromkeys(("out", "query_gradient"), out),
    **dict.fromkeys(
      ("key_gradient", "value_gradient"),
      keys((1, plan.block_k, width), "key"),
    ),
    "log_total_out": block((1, 1, plan.block_q), "row", head, "query"),
    **dict.fromkeys(("mean", "even"), keys((1, 1, width), None)),
    "bias": block((heads, length + memory), head, None),
    "query_info": block((mask_row, infos, length), of_mask, None, None),
    "key_ids": block((mask_row, 1, memory), of_mask, None, None),
    "bounds_q": block((mask_row, plan.blocks_q, 4), of_mask, None, None),
    "bounds_k": block((mask_row, plan.blocks_k, 2), of_mask, None, None),
    "dropout_keys": block((2 * plan.heads * rows,), None),
    "diagonals": block(
      (1, 1, plan.block_q, plan.block_k), "diagonal", head, None, None
    ),
  }


def _call(plan: Plan, kernel, grid, inputs, outputs):
  """Calls a kernel on named arrays over a grid of named axes."""
  rows = len(inputs["query"])
  sizes = {
    "query": plan.blocks_q,
    "key": plan.blocks_k,
    "head": plan.heads,
    "group": plan.groups,
    "row": rows,
    "diagonal": plan.blocks_q + plan.blocks_k - 1,
  }
  specs = _specs(plan, {axis: i for i, axis in enumerate(grid)}, rows)
  specs_out = {name: specs.get(f"{name}_out", specs[name]) for name in outputs}
  call = pallas.pallas_call(
    functools.partial(kernel, plan, (*inputs, *outputs)),
    grid=tuple(sizes[axis] for axis in grid),
    in_specs=[specs[name] for name in inputs],
    out_specs=list(specs_out.values()),
    out_shape=list(outputs.values()),
    compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
    interpret=plan.interpreted,
    name=kernel.__name__.strip("_"),
  )
  # JAX removes an unused call of a function, as after remat, but no kernel.
  results = jax.jit(call)(*inputs.values())
  return dict(zip(outputs, results, strict=True))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(plan: Plan, query_BLX, key_BMX, value_BMX, bias_HR, others):
  """Returns the context, [B, padded_length, H * K].

  Arguments are as of `fused_tpu.attend`, but the bias is `bias_HR`, of query
  minus key from -padded_memory on.
  """
  out, _ = _forward(plan, query_BLX, key_BMX, value_BMX, bias_HR, others)
  return out


def _inputs(plan: Plan, bias_HR, others):
  """The inputs that all kernels read, but queries, keys and values."""
  inputs = dict(others)
  if bias_HR is not None:
    inputs["bias"] = bias_HR
  for name, blocks in (("q", plan.blocks_q), ("k", plan.blocks_k)):
    name = f"bounds_{name}"
    if name in inputs:
      inputs[name] = inputs[name].reshape(plan.mask_rows, blocks, -1)
  return inputs


def _forward(plan: Plan, query_BLX, key_BMX, value_BMX, bias_HR, others):
  inputs = {"query": query_BLX, "key": key_BMX, "value": value_BMX}
  inputs |= _inputs(plan, bias_HR, others)
  if plan.masked:
    mean_B1X = jnp.sum(value_BMX, axis=1, keepdims=True, dtype=jnp.float32)
    inputs["mean"] = mean_B1X / plan.memory
  shape = len(query_BLX), plan.heads, plan.padded_length
  outputs = {
    "out": jax.ShapeDtypeStruct(query_BLX.shape, query_BLX.dtype),
    "log_total": jax.ShapeDtypeStruct(shape, jnp.float32),
  }
  grid = "query", "head", "row"
  results = _call(plan, _forward_kernel, grid, inputs, outputs)
  # Named here, in the rule that is differentiated: a policy sees nothing else.
  out_BLX, log_total = checkpoint_name(
    (results["out"], results["log_total"]), RESULTS
  )
  kept = query_BLX, key_BMX, value_BMX, bias_HR, others, out_BLX, log_total
  return out_BLX, kept


def _backward(plan: Plan, kept, given_BLX):
  query_BLX, key_BMX, value_BMX, bias_HR, others, out_BLX, log_total = kept
  inputs = {
    "query": query_BLX,
    "key": key_BMX,
    "value": value_BMX,
    "given": given_BLX,
    "log_total": log_total,
    "even_out": even_outputs(plan, given_BLX, out_BLX),
  }
  inputs |= _inputs(plan, bias_HR, others)
  even = {}
  if plan.masked:
    even["even"] = even_gradient(plan, given_BLX, log_total)

  def run(kernel, grid, inputs, **outputs):
    shapes = {
      name: jax.ShapeDtypeStruct(x.shape, x.dtype)
      for name, x in outputs.items()
    }
    return _call(plan, kernel, grid, inputs, shapes)

  results = run(
    _keys_kernel,
    ("key", "group", "row"),
    inputs | even,
    key_gradient=key_BMX,
    value_gradient=value_BMX,
  )
  results |= run(
    _queries_kernel, ("query", "head", "row"), inputs, query_gradient=query_BLX
  )
  bias_gradient_HR = None
  if bias_HR is not None:
    shape = (plan.blocks_q + plan.blocks_k - 1, plan.heads)
    shape += (plan.block_q, plan.block_k)
    tiles = run(
      _bias_kernel,
      ("diagonal", "head"),
      inputs,
      diagonals=jax.ShapeDtypeStruct(shape, jnp.float32),
    )["diagonals"]
    bias_gradient_HR = _sum_of_diagonals(plan, tiles)
  return (
    results["query_gradient"],
    results["key_gradient"],
    results["value_gradient"],
    bias_gradient_HR,
    None,
  )


def _sum_of_diagonals(plan: Plan, tiles_DHQM) -> jax.Array:
  """The gradient of the bias, [H, R], from diagonals of blocks."""
  diagonals, _, block_q, block_k = tiles_DHQM.shape
  ahead_D = jnp.arange(diagonals) - (plan.blocks_q - 1)
  places_DQM = (
    jnp.arange(block_q)[None, :, None]
    - jnp.arange(block_k)[None, None]
    - ahead_D[:, None, None] * block_k
    + plan.padded_memory
  )
  by_place = jnp.moveaxis(tiles_DHQM, 1, -1).reshape(-1, plan.heads)
  distances = plan.padded_length + plan.padded_memory
  return jax.ops.segment_sum(by_place, places_DQM.reshape(-1), distances).T


attend.defvjp(_forward, _backward)
