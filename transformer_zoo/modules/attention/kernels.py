"""Attention by fused kernels that come with JAX, and the choice among all.

Not here: Pallas' `flash_attention` for TPUs adds a bias, but as an array of its
own for every row and head, and with the gradient of all scores: a step needs
more memory than with whole scores (docs/log/performance.md). Pallas' kernels
for GPUs know only causal masks and segments; cuDNN's knows any.
"""

import dataclasses

import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.modules.attention.banded import BandedAttention
from transformer_zoo.modules.attention.dot_product import Kernel
from transformer_zoo.modules.attention.dot_product import KernelChoice
from transformer_zoo.modules.attention.dot_product import pad_axis
from transformer_zoo.modules.attention.dot_product import Problem
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.dot_product import whole_groups

_LANES = 128  # Of a TPU's registers, by which blocks are whole.
# On CPUs, from so many bytes of scores on, a few rows at a time are faster than
# all (docs/log/performance.md); with fewer it is the loop that takes the time.
ROWWISE_BYTES = 2**23

NO_DROPOUT = "it drops no attention weights, and the model does"


@gin.register
@dataclasses.dataclass(frozen=True)
class XlaAttention(Kernel):
  """`jax.nn.dot_product_attention` as XLA compiles it, on any device."""

  def refusal(self, problem: Problem) -> str | None:
    return NO_DROPOUT if problem.dropout else None

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    del keep_BH1M
    return jax.nn.dot_product_attention(
      query_BLHK,
      key_BMGK,
      value_BMGK,
      bias=bias_1HLM,
      mask=mask_B1LM,
      scale=1.0,
      implementation="xla",
    )


@gin.register
@dataclasses.dataclass(frozen=True)
class CudnnAttention(Kernel):
  """`jax.nn.dot_product_attention` by cuDNN, on NVIDIA GPUs.

  A bias enters in the compute dtype.
  """

  def refusal(self, problem: Problem) -> str | None:
    if tracing.platform() != "gpu":
      return f"it runs on NVIDIA GPUs, and this is a {tracing.platform()}"
    if problem.dropout:
      return NO_DROPOUT
    if problem.dtype not in (jnp.bfloat16, jnp.float16):
      return (
        f"it computes in bfloat16 or float16, and the model in {problem.dtype}"
      )
    if problem.head_dim % 8 or problem.head_dim > 128:
      return (
        "its heads have a multiple of 8 up to 128 dimensions, and the model's "
        f"{problem.head_dim}"
      )
    return None

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    del keep_BH1M
    length = query_BLHK.shape[1]
    # Its gradients want even lengths.
    query, key, value, mask, bias = padded(
      query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, multiple=2
    )
    return jax.nn.dot_product_attention(
      query,
      key,
      value,
      bias=None if bias is None else bias.astype(query.dtype),
      mask=mask,
      scale=1.0,
      implementation="cudnn",
    )[:, :length]


@gin.register
@dataclasses.dataclass(frozen=True)
class SplashAttention(Kernel):
  """Pallas' splash attention, on TPUs.

  Blocks that are masked altogether, as packing and causality make them, are
  skipped.

  Attributes:
    largest_block: the most queries or keys in a block, a multiple of 128.
  """

  largest_block: int = 512

  def refusal(self, problem: Problem) -> str | None:
    if tracing.platform() != "tpu":
      return f"it runs on TPUs, and this is a {tracing.platform()}"
    if problem.has_bias:
      return "it adds no bias to the scores, and the model does"
    if problem.dropout:
      return NO_DROPOUT
    return None

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    del bias_1HLM, keep_BH1M
    length, memory = query_BLHK.shape[1], key_BMGK.shape[1]
    query, key, value, mask, _ = padded(
      query_BLHK, key_BMGK, value_BMGK, mask_B1LM, multiple=_LANES
    )
    if mask is None:
      mask = jnp.ones((1, 1, query.shape[1], key.shape[1]), bool)
    # A query that sees nothing would divide by the sum of no exponentials: it
    # sees all alike and has no gradient, as in the reference.
    sees_B1L1 = jnp.any(mask, axis=-1, keepdims=True)
    is_key_111M = (jnp.arange(key.shape[1]) < memory).reshape(1, 1, 1, -1)
    mask |= ~sees_B1L1 & is_key_111M
    query *= jnp.swapaxes(sees_B1L1, 1, 2).astype(query.dtype)
    key, value = whole_groups(query, key, value)
    # As for `RowwiseAttention`, lengths are whole on every device.
    heads_first = ("batch", "heads", None, "kv")
    context_BHLK = axes.over_mesh(
      self._rows,
      [jnp.swapaxes(x, 1, 2) for x in (query, key, value)] + [mask],
      [heads_first] * 3 + [("batch", None, None, None)],
    )
    return jnp.swapaxes(context_BHLK, 1, 2)[:, :length]

  def _rows(self, query_BHLK, key_BGMK, value_BGMK, mask_B1LM):
    """Returns [B, H, L, K]; the mask may be one for all rows."""
    mapped = 0 if len(mask_B1LM) == len(query_BHLK) else None
    if mapped is None:
      mask_B1LM = mask_B1LM[0]
    attend = jax.vmap(self._row, in_axes=(0, 0, 0, mapped))
    return attend(query_BHLK, key_BGMK, value_BGMK, mask_B1LM)

  def _row(self, query_HLK, key_GMK, value_GMK, mask_1LM):
    # Imported where it runs: other devices need no kernels of TPUs.
    from jax.experimental.pallas.ops.tpu.splash_attention import (
      splash_attention_kernel as splash,
    )

    block_q, block_kv = (
      largest_divisor(length, self.largest_block)
      for length in mask_1LM.shape[1:]
    )
    kernel = splash.make_splash_mha_single_device(
      mask_1LM,
      block_sizes=splash.BlockSizes(
        block_q=block_q,
        block_kv=block_kv,
        block_q_dkv=block_q,
        block_kv_dkv=block_kv,
        block_q_dq=block_q,
        block_kv_dq=block_kv,
      ),
    )
    # Made while tracing it holds a traced flag, whose truth is asked for.
    kernel.fwd_mask_info = kernel.fwd_mask_info._replace(is_dynamic_mask=True)
    return kernel(query_HLK, key_GMK, value_GMK)


_OF_DEVICES = {"tpu": SplashAttention(), "gpu": CudnnAttention()}


@gin.register
@dataclasses.dataclass(frozen=True)
class AutomaticAttention(KernelChoice):
  """Whole scores while they are small; else what this device has for them.

  On a CPU a few rows at a time are computed as soon as the batch's scores are
  more than its caches hold. Blocks of `Attention.radius` are computed where
  they are fewer scores than all.

  Attributes:
    whole_bytes: up to so many bytes of float32 scores of one attention on one
      device are kept whole; on a CPU, of one row.
    fused_bytes: On TPUs, from so many bytes on, `FusedAttention` computes them
      if it can serve.
  """

  whole_bytes: int = 2**28
  fused_bytes: int = 2**25

  def choose(self, problem: Problem) -> tuple[Kernel, str]:
    mesh = jax.sharding.get_abstract_mesh()
    size = 4 * int(np.prod(problem.shape)) // max(1, mesh.size)
    scores = f"{size / 2**20:,.0f} MB of scores on a device"
    # Those of devices alone have whole lengths.
    shares_length = axes.num_parts_of_length() > 1
    of_devices = {} if shares_length else _OF_DEVICES
    may_fuse = tracing.platform() == "tpu" and not shares_length
    if may_fuse and size >= self.fused_bytes:
      from transformer_zoo.modules.attention.fused import FusedAttention

      if FusedAttention().refusal(problem) is None:
        return FusedAttention(), scores
    window, banded = problem.window, BandedAttention()
    if (
      window is not None
      and 3 * window < problem.shape[-1]
      and banded.refusal(problem) is None
    ):
      return banded, f"each token sees {window - 1} on a side"
    is_rowwise = self._is_rowwise(problem, size)
    if size <= self.whole_bytes and not is_rowwise:
      return REFERENCE, scores
    from transformer_zoo.modules.attention import chunked

    if is_rowwise:
      return chunked.RowwiseAttention(), scores
    fused = of_devices.get(tracing.platform())
    if fused is None:
      return chunked.ChunkedAttention(), scores
    refusal = fused.refusal(problem)
    if refusal is None:
      return fused, scores
    return (
      chunked.ChunkedAttention(),
      f"{scores}; not {type(fused).__name__}: {refusal}",
    )

  def _is_rowwise(self, problem: Problem, size: int) -> bool:
    rows = problem.shape[0] // axes.partitions("batch")
    return (
      tracing.platform() == "cpu"
      and size >= ROWWISE_BYTES
      and rows > 1
      and size // rows <= self.whole_bytes
    )


def padded(
  query_BLHK: jax.Array,
  key_BMGK: jax.Array,
  value_BMGK: jax.Array,
  mask_B1LM: jax.Array | None,
  bias_1HLM: jax.Array | None = None,
  *,
  multiple: int,
) -> tuple[jax.Array | None, ...]:
  """Returns the five with lengths padded to a multiple, keys there masked."""
  length, memory = query_BLHK.shape[1], key_BMGK.shape[1]
  more_queries, more_keys = -length % multiple, -memory % multiple
  if mask_B1LM is None and more_keys:
    mask_B1LM = jnp.ones((1, 1, 1, memory), bool)

  def pad_pairs(x):
    if x is None:
      return None
    x = jnp.broadcast_to(x, (*x.shape[:2], length, memory))
    return pad_axis(pad_axis(x, 2, more_queries), 3, more_keys)

  return (
    pad_axis(query_BLHK, 1, more_queries),
    pad_axis(key_BMGK, 1, more_keys),
    pad_axis(value_BMGK, 1, more_keys),
    pad_pairs(mask_B1LM),
    pad_pairs(bias_1HLM),
  )


def largest_divisor(length: int, limit: int) -> int:
  """The largest multiple of 128 up to a limit that divides a padded length."""
  blocks = range(limit, 0, -_LANES)
  return next(block for block in blocks if length % block == 0)
