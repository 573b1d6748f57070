"""Attention to near tokens, whose time and memory grow with the length.

Queries are cut into blocks as long as the window, so that a query sees keys of
its own block and of both neighbours alone (Guo et al. 2022, section 3.2.1).
Scores are arrays [blocks, B, H, window, 3 * window], of queries by keys there
is none.
"""

import dataclasses
import functools
from typing import ClassVar

from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import tracing
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import dot_product
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.dot_product import Kernel
from transformer_zoo.modules.attention.dot_product import Problem
from transformer_zoo.modules.dropout import Draw
from transformer_zoo.modules.positions import Bias


@struct.dataclass
class Summaries:
  """Further keys, which all tokens of a text see, however far they are.

  Attributes:
    key_BSGK: Their keys.
    value_BSGK: Their values.
    ids_BS: The id of the text of each, as of `masks.Mask`; `masks.NO_KEY` for
      places without a summary.
    places_BL: The number of the summary that each token is part of, from which
      its distance to the others is counted; -1 if it is part of none.
  """

  key_BSGK: jax.Array
  value_BSGK: jax.Array
  ids_BS: jax.Array
  places_BL: jax.Array


@gin.register
@dataclasses.dataclass(frozen=True)
class BandedAttention(Kernel):
  """Attention within `Attention.radius`, in blocks, on any device.

  Weights that are dropped pair by pair are drawn for the pairs of the blocks:
  others than those of the reference.

  Attributes:
    group_bytes: The limit of bytes of float32 scores that are computed at a
      time, and again in the backward pass; a group has at least one block. None
      is 4 MB on CPUs, whose caches hold them, and 64 MB elsewhere.
  """

  group_bytes: Speed[int | None] = None

  reads_descriptions: ClassVar[bool] = True

  def __post_init__(self):
    if self.group_bytes is not None and self.group_bytes < 1:
      raise UserError(
        f"BandedAttention.group_bytes is {self.group_bytes}; it must be "
        "positive"
      )

  def refusal(self, problem: Problem) -> str | None:
    if problem.window is None:
      return "it computes blocks of Attention.radius, and the model has none"
    if not problem.described:
      return (
        "it computes masks and biases from segments, intervals and distances, "
        "and the model gives arrays of queries by keys"
      )
    return None

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    """Returns [B, L, H, K]; `Mask`, `Bias` and `Draw` stand for arrays."""
    return attend(
      query_BLHK,
      key_BMGK,
      value_BMGK,
      mask=mask_B1LM,
      bias=bias_1HLM,
      keep=keep_BH1M,
      group_bytes=self.group_bytes,
    )


def attend(
  query_BLHK: jax.Array,
  key_BLGK: jax.Array,
  value_BLGK: jax.Array,
  *,
  mask: masks.Mask,
  bias: Bias | None,
  keep: Draw | jax.Array | None,
  summaries: Summaries | None = None,
  group_bytes: int | None = None,
) -> jax.Array:
  """Attention of a text to itself within the window of a mask, [B, L, H, K].

  Args:
    query_BLHK: The queries.
    key_BLGK: The keys, each of which H / G neighbouring heads share.
    value_BLGK: The values.
    mask: The mask; its `window` is the length of a block.
    bias: The bias of the scores by distance.
    keep: The draw of dropout, or factors that all queries share.
    summaries: Further keys and values of the same softmax.
    group_bytes: As of `BandedAttention`.
  """
  batch, length, heads, _ = query_BLHK.shape
  window = mask.window
  more = 0 if summaries is None else summaries.key_BSGK.shape[1]
  blocks = {
    "query": _blocks(query_BLHK, window),
    "key": _around(key_BLGK, window),
    "value": _around(value_BLGK, window),
    "seen": _seen(mask, length),
    **_kept(keep, window, more),
  }
  shared = {"bias": None if bias is None else _near_bias(bias, window)}
  if more:
    shared["summaries"] = summaries
    blocks["places"] = _blocks(summaries.places_BL, window, fill=-1)
    blocks["ids"] = _blocks(ids_of_queries(mask, length), window)
    if bias is not None:
      shared["bias_of_summaries"] = _bias_by_place(bias, more)
  attend_blocks = functools.partial(_attend_blocks, **shared)
  number = len(blocks["query"])
  bytes_of_block = 4 * batch * heads * window * (3 * window + more)
  if group_bytes is None:
    group_bytes = 2**22 if tracing.platform() == "cpu" else 2**26
  most = max(1, group_bytes // bytes_of_block)
  size = max(n for n in range(1, min(most, number) + 1) if number % n == 0)
  if size == number:
    context_XBLHK = attend_blocks(blocks)
  else:
    groups = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), blocks)
    # The loop of the map keeps the backward pass from undoing the remat.
    attend_group = jax.checkpoint(attend_blocks, prevent_cse=False)
    context_XBLHK = jax.lax.map(attend_group, groups)
    context_XBLHK = context_XBLHK.reshape(-1, *context_XBLHK.shape[2:])
  context_BXLHK = jnp.moveaxis(context_XBLHK, 0, 1)
  return context_BXLHK.reshape(batch, -1, *query_BLHK.shape[2:])[:, :length]


def ids_of_queries(mask: masks.Mask | None, length: int) -> jax.Array:
  """The id of the text of each token, int32 [1 or B, L]."""
  if mask is None or mask.query_ids_BL is None:
    return jnp.ones((1, length), jnp.int32)
  return mask.query_ids_BL


def _attend_blocks(blocks, *, bias, summaries=None, bias_of_summaries=None):
  """The contexts [X, B, L, H, K] of X blocks of L tokens each."""
  query_XBLHK, seen_XB1LM = blocks["query"], blocks["seen"]
  scores_XBHLM = dot_product.attention_scores(query_XBLHK, blocks["key"])
  near = scores_XBHLM.shape[-1]
  if bias is not None:
    scores_XBHLM += bias[None]
  if summaries is not None:
    scores_XBHLS = dot_product.attention_scores(query_XBLHK, summaries.key_BSGK)
    if bias_of_summaries is not None:
      bias_XBLHS = bias_of_summaries[jnp.maximum(blocks["places"], 0)]
      scores_XBHLS += jnp.moveaxis(bias_XBLHS, -2, -3)
    seen_XB1LS = (
      blocks["ids"][..., None, :, None]
      == (summaries.ids_BS[None, :, None, None])
    )
    batch = query_XBLHK.shape[1]
    scores_XBHLM = jnp.concatenate([scores_XBHLM, scores_XBHLS], axis=-1)
    seen_XB1LM = jnp.concatenate(
      [
        jnp.broadcast_to(x, (len(x), batch, *x.shape[2:]))
        for x in (seen_XB1LM, seen_XB1LS)
      ],
      axis=-1,
    )
  weights_XBHLM = dot_product.masked_softmax(scores_XBHLM, seen_XB1LM)
  weights_XBHLM = weights_XBHLM.astype(query_XBLHK.dtype)
  if "keep" in blocks:
    weights_XBHLM *= blocks["keep"]
  context_XBLHK = dot_product.weighted_values(
    weights_XBHLM[..., :near], blocks["value"]
  )
  if summaries is not None:
    context_XBLHK += dot_product.weighted_values(
      weights_XBHLM[..., near:], summaries.value_BSGK
    )
  return context_XBLHK


def _blocks(x_BL: jax.Array, window: int, fill: int = 0) -> jax.Array:
  """Blocks of as many tokens, [X, B, window, ...]; `fill` is after the end."""
  widths = [(0, 0)] * x_BL.ndim
  widths[1] = 0, -x_BL.shape[1] % window
  x_BL = jnp.pad(x_BL, widths, constant_values=fill)
  x_BXL = x_BL.reshape(len(x_BL), -1, window, *x_BL.shape[2:])
  return jnp.moveaxis(x_BXL, 1, 0)


def _around(x_BM: jax.Array, window: int, fill: int = 0) -> jax.Array:
  """Each block between both neighbours, [X, B, 3 * window, ...]."""
  x_XBL = _blocks(x_BM, window, fill)
  widths = [(1, 1)] + [(0, 0)] * (x_XBL.ndim - 1)
  x_XBL = jnp.pad(x_XBL, widths, constant_values=fill)
  return jnp.concatenate([x_XBL[:-2], x_XBL[1:-1], x_XBL[2:]], axis=2)


def _distances(window: int) -> jax.Array:
  """Key minus query of a block, [window, 3 * window]."""
  return jnp.arange(3 * window)[None] - window - jnp.arange(window)[:, None]


def _seen(mask: masks.Mask, length: int) -> jax.Array:
  """True where a query of a block sees a key, [X, 1 or B, 1, L, M]."""
  window = mask.window
  places_1L = jnp.arange(length)[None]
  # Before the first token, and after the last one, is none.
  key_X1M = _around(places_1L, window, fill=-1)[..., None, :]
  near_LM = jnp.abs(_distances(window)) < window
  seen_XBLM = near_LM[None, None] & (key_X1M >= 0)
  if mask.query_ids_BL is not None:
    seen_XBLM &= (
      _blocks(mask.query_ids_BL, window, masks.NO_QUERY)[..., None]
      == _around(mask.key_ids_BM, window, masks.NO_KEY)[..., None, :]
    )
  if mask.first_BL is not None:
    seen_XBLM &= key_X1M >= _blocks(mask.first_BL, window)[..., None]
  if mask.last_BL is not None:
    seen_XBLM &= key_X1M <= _blocks(mask.last_BL, window)[..., None]
  return seen_XBLM[:, :, None]


def _near_bias(bias: Bias, window: int) -> jax.Array:
  """The bias of the pairs of a block, [1, H, window, 3 * window]."""
  longest = bias.by_distance_1HR.shape[-1] // 2
  distance_LM = jnp.clip(_distances(window), -longest, longest)
  return bias.by_distance_1HR[..., distance_LM + longest]


def _bias_by_place(bias: Bias, number: int) -> jax.Array | None:
  """The bias of all summaries for the tokens of one, [S of these, H, S]."""
  if bias.of_summaries_1HR is None:
    return None
  longest = bias.of_summaries_1HR.shape[-1] // 2
  places_S = jnp.arange(number)
  distance_SS = places_S[None] - places_S[:, None]
  return jnp.moveaxis(bias.of_summaries_1HR[0][:, distance_SS + longest], 0, 1)


def _kept(
  keep: Draw | jax.Array | None, window: int, more: int
) -> dict[str, jax.Array]:
  """The factors of dropout of the weights of blocks, by name; none without.

  They are [X or 1, B, H, 1 or L, M], the last `more` of them of summaries.
  """
  if keep is None:
    return {}
  of_keys = not isinstance(keep, Draw) or 2 in keep.shared
  if isinstance(keep, Draw):
    *of_queries, memory = keep.shape
    pairs = memory if of_keys else 3 * window
    keep = keep.replace(shape=(*of_queries, pairs + more)).array()
  if keep.shape[-1] == 1:
    return {"keep": keep[None]}
  if not of_keys:
    keep_XBLHM = _blocks(jnp.swapaxes(keep, 1, 2), window)
    return {"keep": jnp.swapaxes(keep_XBLHM, 2, 3)}
  near_BMH = jnp.moveaxis(keep[:, :, 0, : keep.shape[-1] - more], 1, 2)
  near_XBHM = jnp.moveaxis(_around(near_BMH, window), 3, 2)
  of_summaries = jnp.broadcast_to(
    keep[None, :, :, 0, keep.shape[-1] - more :], (*near_XBHM.shape[:3], more)
  )
  keep_XBHM = jnp.concatenate([near_XBHM, of_summaries], axis=-1)
  return {"keep": keep_XBHM[..., None, :]}
