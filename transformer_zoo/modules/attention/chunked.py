"""Attention for some queries at a time."""

import dataclasses
import functools

import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.dot_product import Kernel
from transformer_zoo.modules.attention.dot_product import REFERENCE


@gin.register
@dataclasses.dataclass(frozen=True)
class ChunkedAttention(Kernel):
  """The reference for some queries at a time; serves everything.

  Scores and weights are arrays [B, H, queries, M], computed again in the
  backward pass (Rabe and Staats 2021, without their chunks of keys: a query
  and all its keys give its softmax as it stands).

  Attributes:
    queries: The number of queries that are computed at a time.
  """

  queries: int = 256

  def __post_init__(self):
    if self.queries < 1:
      raise UserError(
        f"ChunkedAttention.queries is {self.queries}; it must be positive"
      )

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    length = query_BLHK.shape[1]
    if length <= self.queries:
      return REFERENCE.attend(
        query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
      )

    def split(x, axis):
      """Returns its chunks, [L / queries, ...], or one for all of them."""
      if x is None or x.shape[axis] == 1:
        return x, None
      padded = pad_axis(x, axis, -length % self.queries)
      shape = (*x.shape[:axis], -1, self.queries, *x.shape[axis + 1 :])
      return None, jnp.moveaxis(padded.reshape(shape), axis, 0)

    shared, chunks = zip(
      *(split(x, 2) for x in (mask_B1LM, bias_1HLM, keep_BH1M)), strict=True
    )

    # The loop of the map keeps the backward pass from undoing the remat.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def attend_chunk(chunk):
      query_BLHK, parts = chunk
      given = (
        whole if part is None else part
        for whole, part in zip(shared, parts, strict=True)
      )
      return REFERENCE.attend(query_BLHK, key_BMGK, value_BMGK, *given)

    _, queries_CBLHK = split(query_BLHK, 1)
    context_CBLHK = jax.lax.map(attend_chunk, (queries_CBLHK, chunks))
    context_BCLHK = jnp.moveaxis(context_CBLHK, 0, 1)
    shape = (query_BLHK.shape[0], -1, *query_BLHK.shape[2:])
    return context_BCLHK.reshape(shape)[:, :length]


def pad_axis(x: jax.Array, axis: int, amount: int) -> jax.Array:
  """Returns x with zeros (False) after the end of an axis."""
  widths = [(0, amount if i == axis else 0) for i in range(x.ndim)]
  return jnp.pad(x, widths) if amount else x
