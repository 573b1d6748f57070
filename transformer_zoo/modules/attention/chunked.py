"""Attention for some queries, or for a few rows of the batch, at a time."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools

import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.dot_product import Kernel
from transformer_zoo.modules.attention.dot_product import pad_axis
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.dot_product import whole_groups


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
    given = query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
    if axes.num_parts_of_length() == 1:
      return self._attend(*given)
    # Else the chunks, which are computed in turn, were whole on every device.
    key_BMGK, value_BMGK = whole_groups(query_BLHK, key_BMGK, value_BMGK)
    arrays, absent = _laid_out(
      query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
    )

    def attend(*values):
      return self._attend(**dict(zip(arrays, values, strict=True)), **absent)

    return axes.over_mesh(attend, *zip(*arrays.values(), strict=True))

  def _attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    """Returns [B, L, H, K] of the queries that a device has."""
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


@gin.register
@dataclasses.dataclass(frozen=True)
class RowwiseAttention(Kernel):
  """The reference for a few rows at a time; serves everything.

  For CPUs: the scores of a few rows stay in their caches from the first product
  to the second; the scores of a whole batch would go to memory and back at
  every step between. The backward pass computes them again, which takes no
  longer than reading them: scores of these rows are all that is ever there.

  Attributes:
    group_bytes: The limit of bytes of float32 scores that are computed at a
      time. The rows of a group divide the batch; a group has one row where a
      row has more.
  """

  group_bytes: int = 2**20

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    key_BMGK, value_BMGK = whole_groups(query_BLHK, key_BMGK, value_BMGK)
    arrays, absent = _laid_out(
      query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
    )
    queries = query_BLHK.shape[1] // axes.num_parts_of_length()
    return by_rows(
      functools.partial(REFERENCE.attend, **absent),
      arrays,
      pairs=queries * key_BMGK.shape[1],
      group_bytes=self.group_bytes,
    )


def logical_axes(
  of_queries: str | None = None,
) -> dict[str, tuple[str | None, ...]]:
  """The logical axes of what attention reads, by name.

  Keys are whole on every device, whatever the rules say of lengths elsewhere: a
  query needs all of them. Its row of the mask has to lie where it does.

  Args:
    of_queries: As of `axes.of_queries`.
  """
  of_keys = "batch", None, "heads", "kv"
  return {
    "query_BLHK": ("batch", of_queries, "heads", "kv"),
    "key_BMGK": of_keys,
    "value_BMGK": of_keys,
    "mask_B1LM": ("batch", None, of_queries, None),
    "bias_1HLM": ("batch", "heads", of_queries, None),
    "keep_BH1M": ("batch", "heads", of_queries, None),
  }


def _laid_out(*given):
  """Arrays with their logical axes by name, and None by name for the others.

  Args:
    *given: The arguments of `Kernel.attend`, in their order.
  """
  logical = logical_axes(axes.of_queries())
  arrays, absent = {}, {}
  for (name, of_array), x in zip(logical.items(), given, strict=True):
    if x is None:
      absent[name] = None
    else:
      arrays[name] = x, of_array
  return arrays, absent


def by_rows(
  attend: Callable[..., jax.Array],
  arrays: Mapping[str, tuple[jax.Array, Sequence[str | None]]],
  *,
  pairs: int,
  group_bytes: int,
) -> jax.Array:
  """Computes an attention a few rows at a time, and again backwards.

  Args:
    attend: A function of the arrays, as keywords, that returns [B, L, H, K]; of
      a single row, B is left out of what it gets and returns.
    arrays: Arrays of rows, [B or 1, ...], and their logical axes, by name;
      `query_BLHK` among them.
    pairs: The scores that a head has of a row.
    group_bytes: The limit of bytes of float32 scores that are computed at a
      time, as of `RowwiseAttention`.
  """
  names = ["query_BLHK", *(name for name in arrays if name != "query_BLHK")]

  def of_device(*values):
    rows, _, heads, _ = values[0].shape
    most = max(1, group_bytes // (4 * heads * pairs))
    size = max(n for n in range(1, min(most, rows) + 1) if rows % n == 0)
    return _in_groups(attend, dict(zip(names, values, strict=True)), size)

  return axes.over_mesh(
    of_device, *zip(*(arrays[n] for n in names), strict=True)
  )


def _in_groups(attend, arrays, size):
  """Returns [B, L, H, K] of what one device has, `size` rows at a time."""
  query_BLHK = arrays["query_BLHK"]
  # One row has no axis for rows: XLA's products over one are slower.
  group = (size,) if size > 1 else ()
  shared = {
    name: x if group else x[0]
    for name, x in arrays.items()
    if len(x) == 1 < len(query_BLHK)
  }
  groups = {
    name: x.reshape(-1, *group, *x.shape[1:])
    for name, x in arrays.items()
    if name not in shared
  }

  # The loop of the map keeps the backward pass from undoing the remat.
  @functools.partial(jax.checkpoint, prevent_cse=False)
  def attend_group(group):
    return attend(**shared, **group)

  return jax.lax.map(attend_group, groups).reshape(query_BLHK.shape)
