"""The common plan of the kernels for TPUs and for GPUs.

Letters that `axes` lacks: X is all heads side by side, R a range of distances.
"""

import dataclasses

import jax
from jax import lax
import jax.numpy as jnp

from transformer_zoo.modules.attention.dot_product import MASKED_SCORE
from transformer_zoo.modules.attention.threefry import threefry

# The largest score of a query that sees nothing is less.
EMPTY = MASKED_SCORE / 2
LANES = 128
# The name of what the forward kernel returns, for the policies of remat.
RESULTS = "fused attention"


@dataclasses.dataclass(frozen=True)
class Plan:
  """How the arrays of an attention are cut; static.

  Attributes:
    length: The number of queries, without padding.
    memory: The number of keys, without padding.
    heads: The number of heads of queries.
    groups: The number of heads of keys and values.
    head_dim: The width of a head.
    block_q: The number of queries in a block.
    block_k: The number of keys in a block.
    block_h: The number of heads of queries in a block.
    mask_rows: The number of rows that have a mask of their own; 1 if all have
      the same.
    has_ids: Whether queries see keys of their own id alone.
    has_first: Whether queries see keys from some index on alone.
    has_last: Whether queries see keys up to some index alone.
    keep_rate: The probability that a weight is kept, below 1 with dropout.
    interpreted: Whether Pallas' interpreter runs the kernels.
  """

  length: int
  memory: int
  heads: int
  groups: int
  head_dim: int
  block_q: int
  block_k: int
  block_h: int
  mask_rows: int
  has_ids: bool
  has_first: bool
  has_last: bool
  keep_rate: float
  interpreted: bool

  @property
  def blocks_q(self) -> int:
    return -(-self.length // self.block_q)

  @property
  def blocks_k(self) -> int:
    return -(-self.memory // self.block_k)

  @property
  def blocks_h(self) -> int:
    return self.heads // self.block_h

  @property
  def block_g(self) -> int:
    """The heads of keys and values that the heads of a block share."""
    return self.block_h * self.groups // self.heads

  @property
  def width(self) -> int:
    """The width of the queries of a block."""
    return self.block_h * self.head_dim

  @property
  def shared_width(self) -> int:
    """The width of the keys, and of the values, of a block."""
    return self.block_g * self.head_dim

  @property
  def padded_length(self) -> int:
    return self.blocks_q * self.block_q

  @property
  def padded_memory(self) -> int:
    return self.blocks_k * self.block_k

  @property
  def masked(self) -> bool:
    return self.has_ids or self.has_first or self.has_last

  @property
  def drops(self) -> bool:
    return self.keep_rate < 1.0

  def lanes(self, head: int) -> slice:
    """Where a head of the block lies in its queries."""
    return slice(head * self.head_dim, (head + 1) * self.head_dim)

  def group_lanes(self, head: int) -> slice:
    """Where the keys and values of a head of the block lie."""
    return self.lanes(head * self.block_g // self.block_h)


def is_kept(key, places, keep_rate: float) -> jax.Array:
  """Draws which weights are kept, of a (row, head) and (query, key) each."""
  bits, _ = threefry(key, places)
  return lax.shift_right_logical(bits, 8) < int(keep_rate * 2**24)


def bounds(plan: Plan, ids_BL, first_BL, last_BL, key_ids_BM):
  """The smallest and largest of what the blocks of a mask hold.

  Returns:
    `bounds_q`, of each block of queries the smallest and largest id, the
    smallest first and the largest last key, and `bounds_k`, of each block of
    keys the smallest and largest id; flat.
  """

  def of_blocks(x, reduce, blocks):
    return reduce(x.reshape(len(x), blocks, -1), axis=2)

  parts_q = (
    (ids_BL, jnp.min),
    (ids_BL, jnp.max),
    (first_BL, jnp.min),
    (last_BL, jnp.max),
  )
  bounds_q = [of_blocks(x, f, plan.blocks_q) for x, f in parts_q]
  bounds_k = [
    of_blocks(key_ids_BM, f, plan.blocks_k) for f in (jnp.min, jnp.max)
  ]
  return {
    "bounds_q": jnp.stack(bounds_q, axis=-1).reshape(-1),
    "bounds_k": jnp.stack(bounds_k, axis=-1).reshape(-1),
  }


def even_outputs(plan: Plan, given_BLX, out_BLX) -> jax.Array:
  """What an even change of all scores would do to the loss, [B, H, L].

  Args:
    plan: The plan.
    given_BLX: The gradient of the outputs.
    out_BLX: The outputs.
  """
  given_BLHK, out_BLHK = (
    x.reshape(*x.shape[:2], plan.heads, -1).astype(jnp.float32)
    for x in (given_BLX, out_BLX)
  )
  return jnp.moveaxis(jnp.sum(given_BLHK * out_BLHK, axis=-1), 2, 1)


def even_gradient(plan: Plan, given_BLX, log_total_BHL) -> jax.Array:
  """What queries that see nothing give to every value, [B, 1, G * K].

  Args:
    plan: The plan.
    given_BLX: The gradient of the outputs.
    log_total_BHL: The logarithms of the sums of exponentials of scores.
  """
  rows, length, _ = given_BLX.shape
  is_empty_BLH = jnp.moveaxis(log_total_BHL, 1, 2) <= EMPTY
  given_BLHK = given_BLX.reshape(rows, length, plan.heads, -1)
  given_BHK = jnp.sum(
    jnp.where(is_empty_BLH[..., None], given_BLHK, 0),
    axis=1,
    dtype=jnp.float32,
  )
  given_BGRK = given_BHK.reshape(rows, plan.groups, -1, plan.head_dim)
  return jnp.sum(given_BGRK, axis=2).reshape(rows, 1, -1) / plan.memory


def padded_bias(plan: Plan, bias_HR: jax.Array) -> jax.Array:
  """The bias of each query minus key, from -padded_memory on.

  Args:
    plan: The plan.
    bias_HR: The bias of key minus query, from 1 - length to memory - 1.
  """
  more = plan.padded_memory - plan.memory + 1, plan.padded_length - plan.length
  return jnp.pad(bias_HR[:, ::-1], ((0, 0), more))
