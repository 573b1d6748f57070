"""Attention with its bias and its mask computed inside of a kernel.

Neither scores nor weights, bias or mask lie in memory as arrays of queries by
keys: the kernel computes them block by block, forward and backward, from what
describes them (`masks.Mask`, `positions.Bias`, `dropout.Draw`), and its memory
grows with the sum of both lengths.
"""

import dataclasses
from typing import ClassVar

import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import fused_plan
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.dot_product import Kernel
from transformer_zoo.modules.attention.dot_product import pad_axis
from transformer_zoo.modules.attention.dot_product import Problem
from transformer_zoo.modules.attention.dot_product import whole_groups
from transformer_zoo.modules.attention.threefry import threefry
from transformer_zoo.modules.dropout import Draw

_HEADS = ("batch", None, "heads", "kv")
# Queries and keys of a block, and widths of heads, on GPUs.
_GPU_BLOCK = 64
_GPU_HEAD_DIMS = 16, 32, 64, 128
_AXES = {
  "query": _HEADS,
  "key": _HEADS,
  "value": _HEADS,
  "bias_HR": ("heads", None),
  "query_ids_BL": ("batch", None),
  "key_ids_BM": ("batch", None),
  "first_BL": ("batch", None),
  "last_BL": ("batch", None),
  "draw": (None,),
  "rows": ("batch",),
  "heads": ("heads",),
}


@gin.register
@dataclasses.dataclass(frozen=True)
class FusedAttention(Kernel):
  """Pallas kernels that compute bias, mask and dropout block by block.

  Blocks of queries and keys that see nothing of each other are skipped.
  Weights that are dropped pair by pair are drawn by Threefry from the seed,
  row, head, query and key: the same whatever the blocks, and others than those
  of the reference. A query that sees nothing has the mean of all values,
  without dropout.

  Attributes:
    block_q: The largest number of queries in a block on TPUs, a multiple of
      128; GPUs have blocks of 64 queries and keys of one head.
    block_k: The largest number of keys in a block, as above.
    block_h: The number of heads in a block; as few as fill 128 lanes if None.
    interpreted: Whether Pallas' interpreter runs the kernels, on any device;
      for tests.
  """

  block_q: Speed[int] = 512
  block_k: Speed[int] = 512
  block_h: Speed[int | None] = None
  interpreted: Speed[bool] = False

  reads_descriptions: ClassVar[bool] = True

  def __post_init__(self):
    for name in ("block_q", "block_k"):
      size = getattr(self, name)
      if size < 1 or size % fused_plan.LANES:
        raise UserError(
          f"FusedAttention.{name} is {size}; it must be a positive multiple of "
          f"{fused_plan.LANES}"
        )

  def refusal(self, problem: Problem) -> str | None:
    platform = tracing.platform()
    if not self.interpreted and platform == "cpu":
      return "it runs on TPUs and NVIDIA GPUs, and this is a cpu"
    if platform == "gpu" and problem.head_dim not in _GPU_HEAD_DIMS:
      return (
        "on GPUs its heads have 16, 32, 64 or 128 dimensions, and the model's "
        f"{problem.head_dim}"
      )
    if not problem.described:
      return (
        "it computes masks, biases and dropout from segments, intervals, "
        "distances and draws, and the model gives arrays of queries by keys"
      )
    return None

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    """Returns [B, L, H, K]; `Mask`, `Bias` and `Draw` stand for arrays."""
    heads = query_BLHK.shape[2]
    arrays, keep_rate = {}, 1.0
    if keep_BH1M is not None:
      if _is_shared_by_queries(keep_BH1M):
        # Of keys alone, it belongs to the values as well as to the weights.
        keep_BH1M = getattr(keep_BH1M, "array", lambda: keep_BH1M)()
        shared_by = heads // key_BMGK.shape[2]
        key_BMGK, value_BMGK = (
          jnp.repeat(x, shared_by, axis=2) for x in (key_BMGK, value_BMGK)
        )
        keep_BMH1 = jnp.transpose(keep_BH1M, (0, 3, 1, 2))
        value_BMGK = value_BMGK * keep_BMH1
      else:
        keep_rate = keep_BH1M.keep_rate
        arrays["draw"] = jax.lax.bitcast_convert_type(
          jax.random.key_data(keep_BH1M.key), jnp.int32
        )
        arrays["rows"] = keep_BH1M.places_B()
        arrays["heads"] = jnp.arange(heads)
    key_BMGK, value_BMGK = whole_groups(query_BLHK, key_BMGK, value_BMGK)
    if bias_1HLM is not None:
      arrays["bias_HR"] = bias_1HLM.by_distance_1HR[0]
    if mask_B1LM is not None:
      arrays |= mask_B1LM.description
    arrays = {
      "query": query_BLHK,
      "key": key_BMGK,
      "value": value_BMGK,
      **arrays,
    }

    def attend(*arrays_here):
      return self._on_device(
        keep_rate, **dict(zip(arrays, arrays_here, strict=True))
      )

    return axes.over_mesh(
      attend, list(arrays.values()), [_AXES[name] for name in arrays]
    )

  def _on_device(
    self,
    keep_rate,
    *,
    query,
    key,
    value,
    bias_HR=None,
    draw=None,
    rows=None,
    heads=None,
    **mask,
  ):
    """Returns [B, L, H, K] of the rows and heads that a device has."""
    batch, length, num_heads, head_dim = query.shape
    memory, groups = key.shape[1:3]
    block_q = _block(length, self.block_q)
    block_k = _block(memory, self.block_k)
    block_h = self._block_h(num_heads, groups, head_dim)
    if tracing.platform() == "gpu":
      block_q, block_k, block_h = _GPU_BLOCK, _GPU_BLOCK, 1
    if "query_ids_BL" not in mask and memory % block_k:
      last_BL = mask.get("last_BL", jnp.full((1, length), memory - 1))
      mask["last_BL"] = jnp.minimum(last_BL, memory - 1)
    plan = fused_plan.Plan(
      length=length,
      memory=memory,
      heads=num_heads,
      groups=groups,
      head_dim=head_dim,
      block_q=block_q,
      block_k=block_k,
      block_h=block_h,
      mask_rows=max((len(x) for x in mask.values()), default=1),
      has_ids="query_ids_BL" in mask,
      has_first="first_BL" in mask,
      has_last="last_BL" in mask,
      keep_rate=keep_rate,
      interpreted=self.interpreted,
    )
    others = _mask_arrays(plan, **mask)
    if draw is not None:
      places = rows[:, None], heads[None]
      keys_BH2 = jnp.stack(threefry((draw[0], draw[1]), places), axis=-1)
      others["dropout_keys"] = keys_BH2.reshape(-1)
    if bias_HR is not None:
      bias_HR = fused_plan.padded_bias(plan, bias_HR)
    query_BLX, key_BMX, value_BMX = (
      pad_axis(x.reshape(*x.shape[:2], -1), 1, padded - x.shape[1])
      for x, padded in (
        (query, plan.padded_length),
        (key, plan.padded_memory),
        (value, plan.padded_memory),
      )
    )
    arrays = query_BLX, key_BMX, value_BMX, bias_HR, others
    if tracing.platform() == "gpu":
      from transformer_zoo.modules.attention import fused_gpu

      out_BLX = fused_gpu.attend(plan, *arrays)
    else:
      from transformer_zoo.modules.attention import fused_tpu

      out_BLX = fused_tpu.attend(plan, *arrays)
    return out_BLX[:, :length].reshape(query.shape)

  def _block_h(self, heads: int, groups: int, head_dim: int) -> int:
    """The heads of a block: whole lanes, and whole heads of keys."""

    def fills(block_h):
      block_g = block_h * groups // heads
      widths = (block_h, heads), (block_g, groups)
      return block_h * groups % heads == 0 and all(
        block == whole or block * head_dim % fused_plan.LANES == 0
        for block, whole in widths
      )

    divisors = [n for n in range(1, heads + 1) if heads % n == 0]
    allowed = [n for n in divisors if fills(n)]
    least = 1 if self.block_h is None else self.block_h
    return next((n for n in allowed if n >= least), heads)


def _is_shared_by_queries(keep) -> bool:
  return keep.shape[2] == 1 or (isinstance(keep, Draw) and 2 in keep.shared)


def _block(length: int, limit: int) -> int:
  """The multiple of 128 up to a limit that pads a length the least."""
  lanes = fused_plan.LANES
  blocks = -(-length // limit)
  return -(-length // (blocks * lanes)) * lanes


def _mask_arrays(
  plan, query_ids_BL=None, key_ids_BM=None, first_BL=None, last_BL=None
):
  """The arrays of a mask as kernels read them; none of an empty mask."""
  if not plan.masked:
    return {}

  def rows(x, default, length, padded, padding):
    """Int32 [mask_rows, padded]."""
    if x is None:
      x = jnp.full((1, length), default)
    x = jnp.broadcast_to(x.astype(jnp.int32), (plan.mask_rows, length))
    more = ((0, 0), (0, padded - length))
    return jnp.pad(x, more, constant_values=padding)

  queries = plan.length, plan.padded_length
  ids_BL = rows(query_ids_BL, 0, *queries, masks.NO_QUERY)
  first_BL = rows(first_BL, 0, *queries, plan.memory)
  last_BL = rows(last_BL, plan.memory - 1, *queries, -1)
  key_ids_BM = rows(
    key_ids_BM, 0, plan.memory, plan.padded_memory, masks.NO_KEY
  )
  info = [
    x
    for x, is_read in (
      (ids_BL, plan.has_ids),
      (first_BL, plan.has_first),
      (last_BL, plan.has_last),
    )
    if is_read
  ]
  arrays = fused_plan.bounds(plan, ids_BL, first_BL, last_BL, key_ids_BM)
  arrays["query_info"] = jnp.stack(info, axis=1)
  if plan.has_ids:
    arrays["key_ids"] = key_ids_BM[:, None]
  return arrays
